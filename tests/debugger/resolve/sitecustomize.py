"""With this directory on PYTHONPATH, `pdb` and `bdb` have the debugger's classes in every process."""

import bdb

import ferrule_debugger

ferrule_debugger.install()
bdb.Bdb = ferrule_debugger.Bdb
