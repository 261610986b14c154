// A shared library needs a source file; its contents are the static libraries of src/.
