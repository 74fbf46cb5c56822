"""One execution environment for an agent: on this machine, in a server, or on another host."""
