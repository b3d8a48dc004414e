"""The store on Valkey or Redis. Entry points take ``open_store`` from ``valkey.py``."""
