"""The server: one core behind every transport.

    daemon ── listen                      what to serve, from start to signal
      └ connection ── lanes, outbox       one peer: reads, runs calls, sends
          └ dispatch                      method names to typed calls
              └ handler                   what the calls act on: handshake, processes, files
                  ├ processes/            start, watch, read, signal and reap children
                  └ filesystem            files

    workers ── threads                    for starts and file requests, shared by all connections
"""
