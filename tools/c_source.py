"""Reading C sources without a parser: enough for the checks of this folder."""
import re

_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def _blank(match):
    """Same length and line breaks, so that positions stay true."""
    return re.sub(r"[^\n]", " ", match.group(0))


def strip(text):
    """Text without comments and the insides of strings; line numbers stay."""
    return _TOKEN.sub(_blank, text)


def strip_comments(text):
    return _TOKEN.sub(lambda m: _blank(m) if m.group(0)[0] == "/" else m.group(0), text)


def includes(text):
    """(line, quoted, name) of each #include."""
    text = strip_comments(text)
    for match in _INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1) == '"', match.group(2)


def calls(text, names):
    """(line, name) wherever one of `names` (a regular expression) is called."""
    text = strip(text)
    for match in re.finditer(r"(?<![\w.>])(%s)[ \t]*\(" % names, text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1)


def functions(text):
    """(name, first line, lines) of each function body at file level, and of each macro of several lines."""
    text = strip(text)
    for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:[^\n]*\\\n)*[^\n]*", text, re.M):
        if "\n" in match.group(0):
            yield match.group(1), text.count("\n", 0, match.start()) + 1, match.group(0).count("\n") + 1
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", _blank, text, flags=re.M)
    text = re.sub(r"\bextern\s+\{", _blank, text)
    depth, start, name = 0, 0, None
    statement = 0
    for match in re.finditer(r"[{};]", text):
        at, char = match.start(), match.group(0)
        if char == "{":
            if depth == 0:
                head = text[statement:at]
                found = re.search(r"(\w+)\s*\([^;]*\)\s*(?:__attribute__\s*\(.*\)\s*)?$", head, re.S)
                name = _function_name(head) if found else None
                start = statement + len(head) - len(head.lstrip())
            depth += 1
        elif char == "}":
            depth = max(0, depth - 1)
            if depth == 0:
                if name:
                    first = text.count("\n", 0, start) + 1
                    yield name, first, text.count("\n", 0, at) + 2 - first
                name, statement = None, at + 1
        elif depth == 0:
            statement = at + 1


def _function_name(head):
    """The identifier before the last parenthesis that opens at depth 0; SB_ISA(name) gives name."""
    wrapped = re.search(r"\bSB_ISA\s*\(\s*(\w+)\s*\)\s*\(", head)
    if wrapped:
        return wrapped.group(1)
    match = re.search(r"(\w+)\s*\(", head)
    return match.group(1) if match else None
