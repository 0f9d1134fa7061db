"""What fits where: nodes, pods, gangs, shortfalls. Pure arithmetic, shared by the scheduler and whoever explains it."""
