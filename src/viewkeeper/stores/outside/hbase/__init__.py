"""Tables in HBase: rows through its Thrift gateway, their log from the files of its write-ahead logs."""
