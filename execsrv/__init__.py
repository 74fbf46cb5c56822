"""execsrv: start and control processes and files on a machine for a client somewhere else."""
