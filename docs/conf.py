"""Builds the documentation site: `python -m sphinx -W --keep-going -n -c docs . site`.

Pages are the Markdown files of the repository, where they lie, so that each relative link works both
on the site and in the repository. That is why the source folder is the repository itself. A link to
a file that is no page, such as a script, becomes a download.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for `site_pages`

import beam_pipeline

project = "beam-tfrecord"
author = "the authors of beam-tfrecord"
version = release = beam_pipeline.__version__
html_title = f"{project} {version}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "site_pages"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "benchmarks/README.md",
    "deploy/**.md",
    "beam_pipeline/layouts/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = [
    "**/.*",
    ".*",
    "build",
    "site",
    "tests",
    "**/*.egg-info",
    "beam_pipeline/transforms",
]
highlight_language = "text"
smartquotes = False  # --option is no dash

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # levels of headings that links may name


autodoc_mock_imports = ["tensorflow", "torch"]
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autoclass_content = "both"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_extra_path = ["site_root"]  # index.html, which leads to docs/index.html
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
default_role = "code"  # docstrings write `code`
