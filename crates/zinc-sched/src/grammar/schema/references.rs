//! Where a `$ref` leads: JSON pointers, anchors, and identifiers that are in the same document.

use super::document::{At, Document, ROOT};

/// The value that a reference names, seen from the schema `from` that holds it.
///
/// # Errors
/// Why it leads nowhere.
pub(super) fn resolve(document: &Document, from: At, reference: &str) -> Result<At, String> {
    let (resource, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let base = if resource.is_empty() {
        resource_of(document, from)
    } else {
        let found = document.all().find(|&at| identifier(document, at).is_some_and(|id| id == resource));
        found.ok_or_else(|| {
            format!("the reference \"{reference}\" leads to no `$id` in this schema, and other documents are not read")
        })?
    };
    let fragment = percent_decoded(fragment)
        .ok_or_else(|| format!("the reference \"{reference}\" has a `%` without two hexadecimal digits of UTF-8"))?;
    if fragment.is_empty() {
        return Ok(base);
    }
    let Some(pointer) = fragment.strip_prefix('/') else {
        let found = document.all().find(|&at| is_anchor(document, at, &fragment) && resource_of(document, at) == base);
        return found
            .ok_or_else(|| format!("the reference \"{reference}\" names an anchor that is not in this schema"));
    };
    let mut at = base;
    for token in pointer.split('/') {
        let name = unescaped(token)
            .ok_or_else(|| format!("the reference \"{reference}\" has a `~` that is followed neither by 0 nor by 1"))?;
        at = document.part(at, &name).ok_or_else(|| {
            format!(
                "the reference \"{reference}\" leads nowhere: there is no \"{name}\" in \"{}\"",
                document.pointer(at)
            )
        })?;
    }
    Ok(at)
}

/// The identifier of a schema that is a resource of its own, without the `#` that it may end in.
fn identifier(document: &Document, at: At) -> Option<&str> {
    let id = document.string(document.member(at, "$id")?)?.trim_end_matches('#');
    (!id.is_empty() && !id.contains('#')).then_some(id)
}

/// The innermost schema with an identifier that a place is in, or the whole document.
fn resource_of(document: &Document, at: At) -> At {
    let mut current = Some(at);
    while let Some(at) = current {
        if identifier(document, at).is_some() {
            return at;
        }
        current = document.parent(at);
    }
    ROOT
}

fn is_anchor(document: &Document, at: At, name: &str) -> bool {
    let value = |key| document.member(at, key).and_then(|value| document.string(value));
    [value("$anchor"), value("$dynamicAnchor")].contains(&Some(name))
        // Up to draft 7, an identifier that is a fragment alone.
        || [value("$id"), value("id")].into_iter().flatten().any(|id| id.strip_prefix('#') == Some(name))
}

/// A token of a JSON pointer with its escapes read (RFC 6901).
fn unescaped(token: &str) -> Option<String> {
    let valid = token.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    valid.then(|| token.replace("~1", "/").replace("~0", "~"))
}

/// A fragment with its percent-encoded bytes read (RFC 3986).
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}
