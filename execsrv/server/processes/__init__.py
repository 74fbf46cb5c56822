"""Processes, from the request to the reaped child.

    table, first_cut        the methods of a dialect, and its ids
      └ supervisor          owns every process of a connection
          └ process         one life: start, output, exit, close; a source of ordered events
              ├ command ── environment      what to run, checked
              ├ spawn ── posix_spawn, terminal    the child, its pidfd and its pipes or terminal
              ├ descriptor, stdin           one descriptor each, waited for as a greenlet
              ├ output_log, window          what is kept, and how far the client may fall behind
              └ sessions                    signals for all groups of a session
"""
