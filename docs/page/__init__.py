"""The generated pages, by what they describe: each function returns Markdown."""
