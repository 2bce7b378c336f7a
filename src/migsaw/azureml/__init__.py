"""EDGE: Azure ML's own SDK: job files are held to the schema that the service reads. Imported only where it is used."""
