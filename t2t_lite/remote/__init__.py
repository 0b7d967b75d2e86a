"""Files in a store, such as s3:// or gs://: read and written over fsspec, kept in working copies, locked by a lease."""
