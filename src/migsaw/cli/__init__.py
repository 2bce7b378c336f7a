"""The command line: thin, one module per verb, loaded when it is called."""
