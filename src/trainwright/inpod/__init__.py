"""What runs inside pods. Standard library only; imports nothing of ours."""
