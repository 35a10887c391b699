"""The declarations of a public header, for what is made from them: bindings/swig/generate, tools/abi_baseline.

The headers keep to so small a part of C that patterns are enough; whatever they do not understand is an error.
"""

import re


class NotUnderstood(Exception):
    pass


class Header:
    """Everything in the order of the header.

    versions   {"PREFIX_ABI_VERSION": 1}
    macros     {"PREFIX_NUL": "((size_t)-1)"}         every macro without parameters, with its text
    lists      {"PREFIX_FUNCTIONS": ["prefix_run"]}   the X lists
    constants  [("PREFIX_OK", "0")]                   of all enums
    aliases    {"prefix_status": "int32_t"}
    callbacks  {"prefix_log_callback": ("void", [("int32_t", "level"), ...])}
    handles    ["prefix_engine"]                      types of which a program sees only pointers
    structs    {"prefix_error": [("code", "int32_t"), ("domain", "char[48]"), ...]}
    functions  [("prefix_status", "prefix_run", [("const prefix_batch*", "batch"), ...])]
    """

    def __init__(self, text: str) -> None:
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        lines = text.replace("\\\n", " ")
        macros = re.findall(r"^#define (\w+)(?![\w(])(.*)$", lines, re.M)
        self.macros = {name: " ".join(value.split()) for name, value in macros}
        self.versions = {name: int(value) for name, value in self.macros.items() if name.endswith("_VERSION")}
        self.lists = {name: re.findall(r"\bX\((\w+)\)", body)
                      for name, body in re.findall(r"^#define (\w+)\(X\)(.*)$", lines, re.M)}
        text = re.sub(r"^#.*$", "", lines, flags=re.M)
        enums = re.findall(r"\benum(?: \w+)? \{(.*?)\}", text, re.S)
        self.constants = [self.constant(part) for body in enums for part in body.split(",") if part.strip()]
        self.handles = re.findall(r"typedef struct (\w+) \1;", text)
        self.structs = {}
        for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, re.S):
            self.structs[name] = [field for line in body.split(";") for field in self.fields(line)]
        self.aliases = {name: kind for kind, name in re.findall(r"^typedef (\w+) (\w+);", text, re.M)}
        self.callbacks = {}
        for result, name, parameters in re.findall(r"^typedef ([\w* ]+?) ?\(\*(\w+)\)\(([^()]*)\);", text, re.M):
            self.callbacks[name] = (result, self.parameters(parameters))
        self.functions = []
        for result, name, parameters in re.findall(r"PREFIX_API ([\w* ]+?)\b(\w+)\(([^()]*)\);", text):
            self.functions.append((result.strip(), name, self.parameters(parameters)))
        if len(self.functions) != text.count("PREFIX_API"):
            raise NotUnderstood("a declaration after PREFIX_API")
        types = len(self.handles) + len(self.structs) + len(self.aliases) + len(self.callbacks)
        if types != len(re.findall(r"\btypedef\b", text)) or len(enums) != len(re.findall(r"\benum\b", text)):
            raise NotUnderstood("a typedef or an enum")

    @staticmethod
    def constant(text: str) -> tuple[str, str]:
        found = re.fullmatch(r"(\w+) = (.+)", " ".join(text.split()))
        if not found:
            raise NotUnderstood(f"the constant '{text.strip()}'; each has its value written out")
        return found.groups()

    @staticmethod
    def fields(line: str) -> list[tuple[str, str]]:
        line = " ".join(line.split())
        if not line:
            return []
        found = re.fullmatch(r"((?:const )?\w+\*?) (\w+(?:\[\d+\])?(?:, \w+(?:\[\d+\])?)*)", line)
        if not found:
            raise NotUnderstood(f"the field '{line}'")
        kind, names = found.groups()
        return [(name.split("[")[0], kind + name[len(name.split("[")[0]):]) for name in names.split(", ")]

    @staticmethod
    def parameters(text: str) -> list[tuple[str, str]]:
        text = " ".join(text.split())
        return [] if text == "void" else [tuple(part.rsplit(" ", 1)) for part in text.split(", ")]
