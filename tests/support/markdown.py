"""What a page of the documentation can be cited by."""

import re

CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors a reader's browser makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", CODE_BLOCK.sub("", text), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}
