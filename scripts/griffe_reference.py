"""An extension of Griffe for what the API reference shows beyond the docstrings.

* Names of types and constants that are not public are shown as what they stand for.
* Members of bases that are not public are shown as members of the class.
* Fields of models, typed dictionaries and enumerations need no docstring each: those that the
  docstring of their class does not describe are listed with their type and default.
* Errors and streams are shown without the arguments of their constructors, which users do not call.
* `**options` is replaced by the list of the options, if their class is not a public name.
* Parameters whose name begins with an underscore are left out.
* What all models have (`dump`, `to_json`, `get`) is left out; the pages describe it once.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from griffe import (
    Alias,
    AliasResolutionError,
    Attribute,
    Class,
    DataclassesExtension,
    Docstring,
    DocstringAttribute,
    DocstringParameter,
    DocstringSection,
    DocstringSectionAttributes,
    DocstringSectionKind,
    DocstringSectionParameters,
    Expr,
    ExprCall,
    ExprKeyword,
    ExprName,
    ExprSubscript,
    ExprTuple,
    Extension,
    Function,
    Module,
    ModulesCollection,
)

__all__ = ["ReferenceExtension"]

_ENUMS = {"Enum", "StrEnum"}
_FIELD_BASES = {"BaseModel", "TypedDict", *_ENUMS}
_MODEL_BASES = {"coreason_manifest.definitions._base", "coreason_client.a2a.types._Model"}
_PRIVATE_OPTIONS = "coreason_client.llm.types.CallOptions"
_OURS = ("coreason_client.", "coreason_manifest.")
_LONGEST_TYPE = 80  # a longer one is easier to understand by its name


class ReferenceExtension(Extension):
    """Completes the objects of a package after it was loaded."""

    def on_package(self, *, pkg: Module, loader: Any, **_: Any) -> None:
        """Complete all classes and functions."""
        DataclassesExtension().on_package(pkg=pkg)  # it would run after this one
        members = list(_members(pkg))
        public = {name for module in _modules(pkg) for name in _exported(module)}
        plain = _Plain(loader.modules_collection, public)
        for member in members:
            plain.rewrite(member)
        for member in members:
            if isinstance(member, Class):
                _complete_class(member)
                _add_members_of_private_bases(member, public)
            elif isinstance(member, Function):
                _list_options(member, loader.modules_collection)


def _modules(module: Module) -> Iterator[Module]:
    yield module
    for member in module.modules.values():
        if isinstance(member, Module):
            yield from _modules(member)


def _members(pkg: Module) -> Iterator[Class | Function | Attribute]:
    """Yield the members of all modules, and those of classes before their class."""
    for module in _modules(pkg):
        for member in list(module.members.values()):
            if isinstance(member, Class):
                for own in list(member.members.values()):
                    if isinstance(own, Function | Attribute):
                        yield own
            if isinstance(member, Class | Function | Attribute):
                yield member


def _exported(module: Module) -> list[str]:
    """Return what a package exports, or a module of the definitions."""
    is_definition = module.path.startswith("coreason_manifest.") and "._" not in module.path
    if not module.is_init_module and not is_definition:
        return []
    return [str(name) for name in module.exports or module.imports]  # imports of a lazy package


class _Plain:
    """Replaces the names of types and constants that are not public by what they stand for."""

    def __init__(self, collection: ModulesCollection, public: set[str]) -> None:
        self._collection = collection
        self._public = public

    def rewrite(self, member: Class | Function | Attribute) -> None:
        if isinstance(member, Attribute):
            member.annotation = self._plain(member.annotation)
        elif isinstance(member, Function):
            member.returns = self._plain(member.returns)
            for parameter in list(member.parameters):
                if parameter.name.startswith("_"):
                    del member.parameters[parameter.name]
                    continue
                parameter.annotation = self._plain(parameter.annotation)
                parameter.default = self._constant(parameter.default)

    def _plain(self, found: Any) -> Any:
        if isinstance(found, ExprName):
            meant = self._plain(self._alias(found))
            return found if meant is None or len(str(meant)) > _LONGEST_TYPE else meant
        if isinstance(found, ExprSubscript):
            if str(found.left) == "Annotated" and isinstance(found.slice, ExprTuple):
                return self._plain(found.slice.elements[0])
            meant = self._alias(found.left)  # a generic one, such as `Many[Part]` for list[Part]
            left = str(self._plain(meant)).partition("[")[0] if meant else found.left
            return ExprSubscript(left, self._plain(found.slice))
        if isinstance(found, Expr):
            parts = {field.name: self._plain(getattr(found, field.name)) for field in fields(found)}
            return replace(found, **parts)
        return [self._plain(each) for each in found] if isinstance(found, list) else found

    def _alias(self, name: object) -> Expr | None:
        found = self._resolve(name)
        value = None if found is None else found.value
        # A variable for types is a call of TypeVar.
        return value if isinstance(value, Expr) and not isinstance(value, ExprCall) else None

    def _constant(self, default: Any) -> Any:
        found = self._resolve(default) if str(default).isupper() else None
        return default if found is None or isinstance(found.value, ExprName) else found.value

    def _resolve(self, name: object) -> Attribute | None:
        """Return the attribute of this project that a name stands for, unless it is public."""
        if not isinstance(name, ExprName) or name.name in self._public:
            return None
        try:
            found = self._collection[name.canonical_path]
            found = found.final_target if isinstance(found, Alias) else found
        except (KeyError, AliasResolutionError):
            return None
        is_ours = found.path.startswith(_OURS)
        return found if is_ours and isinstance(found, Attribute) else None


# Classes


def _complete_class(cls: Class) -> None:
    bases = _base_names(cls)
    if cls.path.startswith(tuple(_MODEL_BASES)):
        cls.members = {name: own for name, own in cls.members.items() if not own.is_function}
    if bases & _FIELD_BASES:
        _list_fields(cls)
    is_made_by_users = _section(cls.docstring, DocstringSectionKind.parameters) is not None
    made_by_us = "CoreasonError" in bases | {cls.name} or cls.name.endswith("Stream")
    if made_by_us and not is_made_by_users and "dataclass" not in cls.labels:
        cls.members.pop("__init__", None)


def _add_members_of_private_bases(cls: Class, public: set[str]) -> None:
    for name, member in cls.inherited_members.items():
        owner = member.final_target.parent
        if owner is not None and owner.name not in public and not name.startswith("_"):
            cls.members.setdefault(name, member)


def _base_names(cls: Class) -> set[str]:
    """Return the names of all bases, those of other packages included."""
    names = {str(base).partition("[")[0].rpartition(".")[2] for base in cls.bases}
    for base in cls.resolved_bases:
        if isinstance(base, Class):
            names |= _base_names(base)
    return names


def _list_fields(cls: Class) -> None:
    cls.docstring = cls.docstring or Docstring("", parent=cls)
    section = _section(cls.docstring, DocstringSectionKind.attributes)
    described = {item.name for item in section.value} if section else set()
    missing = [field for field in _fields(cls) if field.name not in described]
    if missing and section is None:
        section = DocstringSectionAttributes([])
        cls.docstring.parsed.append(section)
    if section is not None:
        section.value.extend(missing)


def _fields(cls: Class) -> list[DocstringAttribute]:
    """Return the fields of a class, those of its bases first."""
    found: dict[str, DocstringAttribute] = {}
    for base in cls.resolved_bases:
        if isinstance(base, Class):
            found |= {field.name: field for field in (*_described(base), *_fields(base))}
    for name, member in cls.members.items():
        if isinstance(member, Attribute) and _is_field(member, cls):
            shown = _required(member.annotation)
            description = _default(member, cls)
            found[name] = DocstringAttribute(name, annotation=shown, description=description)
    return list(found.values())


def _described(cls: Class) -> list[DocstringAttribute]:
    section = _section(cls.docstring, DocstringSectionKind.attributes)
    return list(section.value) if section else []


def _is_field(member: Attribute, cls: Class) -> bool:
    if member.name.startswith("_") or member.name == "model_config" or member.has_docstring:
        return False
    if "property" in member.labels or "ClassVar" in str(member.annotation):
        return False
    return member.annotation is not None or bool(_base_names(cls) & _ENUMS)


def _required(annotation: str | Expr | None) -> str | Expr | None:
    if isinstance(annotation, ExprSubscript) and str(annotation.left) == "NotRequired":
        return annotation.slice
    return annotation


def _default(member: Attribute, cls: Class) -> str:
    if "TypedDict" in _base_names(cls):
        is_optional = _required(member.annotation) is not member.annotation
        return "may be absent" if is_optional else "always present"
    if member.annotation is None:
        return f"`{member.value}`"
    value = member.value
    if isinstance(value, ExprCall) and str(value.function) == "Field":
        keywords = {
            each.name: each.value for each in value.arguments if isinstance(each, ExprKeyword)
        }
        positional = [each for each in value.arguments if not isinstance(each, ExprKeyword)]
        if factory := str(keywords.get("default_factory", "")):
            return "empty by default" if factory in ("dict", "list") else "generated by default"
        value = keywords.get("default", positional[0] if positional else None)
    return "required" if value is None else f"by default `{value}`"


# Functions


def _list_options(function: Function, collection: ModulesCollection) -> None:
    """Describe each of the options instead of `**options`, if their class is not public."""
    section = _section(function.docstring, DocstringSectionKind.parameters)
    if not isinstance(section, DocstringSectionParameters):
        return
    for parameter in function.parameters:
        if _PRIVATE_OPTIONS.rpartition(".")[2] not in str(parameter.annotation):
            continue
        options = collection[_PRIVATE_OPTIONS]
        if f"`{_PRIVATE_OPTIONS}`" not in (function.docstring or Docstring("")).value:
            continue  # another class of this name
        section.value = [item for item in section.value if item.name != parameter.name]
        section.value += [
            DocstringParameter(
                field.name, annotation=field.annotation, description=field.description
            )
            for field in _described(options)
        ]


def _section(docstring: Docstring | None, kind: DocstringSectionKind) -> DocstringSection | None:
    if docstring is None:
        return None
    return next((section for section in docstring.parsed if section.kind is kind), None)
