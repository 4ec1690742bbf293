"""The report of one model as an HTML page: `content` is what it shows, `skeleton` the document around it."""
