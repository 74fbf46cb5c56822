"""Tools with which a model works in an environment.

    toolbox                    which tools there are, their specifications, and calls of them
      ├ arguments              what a model passes, judged by schemas/tools/
      ├ read_file ─ indentation
      ├ list_dir
      ├ view_image
      ├ commands               exec_command and write_stdin
      └ result, text           what all of them give back
"""
