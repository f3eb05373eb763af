"""The page: one self-contained HTML file."""

from puarena.report.page.page import write_page

__all__ = ["write_page"]
