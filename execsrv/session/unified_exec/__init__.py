"""Commands for an agent: run one, look at its output within a time, and go on with it under a session id.

    manager                  the two tools: ids, deadlines, limits
      ├ command_session      one process, what it wrote and who waits for it
      │   └ head_tail_buffer
      ├ response             the answer for the model
      ├ events               what subscribers are told
      └ request, errors      what is asked of a backend, and what can go wrong
    local_process            a backend: this machine
    server_process           a backend: an exec server, wherever it is
"""
