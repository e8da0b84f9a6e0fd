"""Copy a folder of object storage to a folder here, by the library that vLLM streams with.

python3 tandem_fetch.py s3://bucket/prefix FOLDER
"""

import sys

if __name__ == "__main__":
    from runai_model_streamer import pull_files

    uri, folder = sys.argv[1:]
    # vLLM also omits these in a repository of the Hub: the same weights in another format.
    pull_files(f"{uri.rstrip('/')}/", folder, ignore_pattern=["*/original/*"])
