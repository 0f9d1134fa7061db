"""How the processes of a job find each other; one module each."""
