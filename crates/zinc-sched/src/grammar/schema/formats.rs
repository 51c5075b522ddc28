//! The values of `format` that are checked.
//!
//! A format is checked where a regular expression can say all of it. Every other name is an annotation, as the specification has it, and
//! restricts nothing. docs/constraints.md has a table of what each expression covers.

/// A year other than 0000, a month, and a day which that month of that year has.
const DATE: &str = concat!(
    "(?:(?:",
    "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)-(?:",
    "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|",
    "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|",
    "02-(?:0[1-9]|1[0-9]|2[0-8])))|",
    // Years that are multiples of 4 and, if they end in 00, of 400.
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)",
);

/// A time of day with its offset from UTC. Leap seconds are left out: whether there was one depends on the date.
const TIME: &str = concat!(
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?",
    "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])",
);

/// ISO 8601's durations as RFC 3339 writes them down in appendix A: units follow each other without a gap.
const DURATION: &str = concat!(
    "P(?:[0-9]+W|",
    "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)",
    "(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?|",
    "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))",
);

/// Letters, digits and inner hyphens, at most 63 (RFC 1123).
const LABEL: &str = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";

const BYTE: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";

/// Unreserved characters, sub-delimiters and escapes of RFC 3986.
const URI_CHARACTER: &str = r"[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2}";

/// A regular expression for the strings of a format, `None` for a name that is an annotation.
pub(super) fn pattern(name: &str) -> Option<String> {
    Some(match name {
        "date" => DATE.to_owned(),
        "time" => TIME.to_owned(),
        "date-time" => format!("{DATE}[Tt]{TIME}"),
        "duration" => DURATION.to_owned(),
        "email" => {
            let atom = r"[A-Za-z0-9!#$%&'*+\-/=?\^_`{|}~]+";
            format!(r"{atom}(?:\.{atom})*@{LABEL}(?:\.{LABEL})*")
        }
        "hostname" => format!(r"{LABEL}(?:\.{LABEL})*"),
        "ipv4" => ipv4(),
        "ipv6" => ipv6(),
        "uuid" => "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}".to_owned(),
        "uri" => uri(),
        "json-pointer" => "(?:/(?:[^~/]|~[01])*)*".to_owned(),
        _ => return None,
    })
}

/// The most characters that a format's strings have, where its expression does not say.
pub(super) fn max_length(name: &str) -> Option<u64> {
    (name == "hostname").then_some(253)
}

fn ipv4() -> String {
    format!(r"(?:{BYTE}\.){{3}}{BYTE}")
}

/// RFC 4291, without a zone: eight groups, the last two perhaps as an IPv4 address, and one run of groups replaced by `::`.
fn ipv6() -> String {
    let group = "[0-9A-Fa-f]{1,4}";
    let tail = format!("(?:{group}:{group}|{})", ipv4());
    let mut forms = vec![format!("(?:{group}:){{6}}{tail}")];
    for before in 0..=7_usize {
        let head = match before {
            0 => String::new(),
            before => format!("{group}(?::{group}){{0,{}}}", before - 1),
        };
        let head = if before == 0 { head } else { format!("(?:{head})?") };
        // What follows `::` leaves at least one group to it.
        let after = 7 - before;
        let rest = match after {
            0 => String::new(),
            1 => format!("(?:{group})?"),
            after => format!("(?:(?:{group}:){{0,{}}}{tail}|{group})?", after - 2),
        };
        forms.push(format!("{head}::{rest}"));
    }
    format!("(?:{})", forms.join("|"))
}

/// RFC 3986, absolute: a scheme, then an authority with a path, or a path alone, then perhaps a query and a fragment.
fn uri() -> String {
    let path = format!("(?:{URI_CHARACTER}|[:@])");
    let user = format!("(?:{URI_CHARACTER}|:)*");
    let host =
        format!(r"(?:\[(?:{}|[vV][0-9A-Fa-f]+\.(?:[A-Za-z0-9\-._~!$&'()*+,;=:])+)\]|(?:{URI_CHARACTER})*)", ipv6());
    let authority = format!("//(?:{user}@)?{host}(?::[0-9]*)?(?:/{path}*)*");
    let alone = format!("(?:/(?:{path}+(?:/{path}*)*)?|{path}+(?:/{path}*)*)?");
    let tail = format!("(?:{path}|[/?])*");
    format!(r"[A-Za-z][A-Za-z0-9+\-.]*:(?:{authority}|{alone})(?:\?{tail})?(?:\#{tail})?")
}
