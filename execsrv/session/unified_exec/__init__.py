"""Commands for an agent: run one, look at its output within a time, and go on with it under a session id.

    manager                     the two tools: times, limits, what a model is told
      ├ session_table           ids, and which commands make room for others
      ├ followers               a thread for each command, and the end of all
      │   └ command_session     one process: what it wrote, who waits for it, what subscribers are told
      │       └ head_tail_buffer, events
      └ response                the answer
    request, errors             what is asked of a backend, what it gives, and what can go wrong
      ├ local_process           a backend: this machine
      │   └ kernel_session
      └ server_process          a backend: an exec server, wherever it is
          └ input_queue
"""
