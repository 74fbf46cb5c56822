"""The server: one core behind every transport.

    daemon ── listen                      what to serve, from start to signal
      └ connection ── outbox              one peer: reads, schedules, sends
          └ dispatch ── dialects          method names to typed calls, events to messages
              └ handler                   what the calls act on: handshake, processes, files
                  ├ processes/            start, watch, read, signal and reap children
                  └ filesystem            files, on threads
"""
