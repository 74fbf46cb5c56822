"""Files: what the methods of ``filesystem.py`` are made of.

    filesystem                      the methods: params in, results or our errors out
      ├ os_errors                   errno to code, kind and words
      ├ read_file, read_directory
      ├ write_file                  whole or not at all
      ├ handles                     what is read and written block by block
      │   └ draft                   a file without a name, until it is complete
      ├ copy_tree, remove_tree ── tree_cursor       walks as deep as a tree goes
      ├ cached                      what needs no thread, since the kernel knows it
      │   └ statx
      └ places                      paths of any length

Everything but ``cached`` blocks, takes paths as bytes, and raises OSError or, for wrong use, InvalidRequest.
"""
