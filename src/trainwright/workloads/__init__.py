"""Small controllers for the local home: scheduler, garbage collection, built-in workloads."""
