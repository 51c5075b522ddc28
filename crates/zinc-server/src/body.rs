//! The body of a request: read within limits, and turned into the plain structs of an API, with what is wrong and what is unknown by name.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::core::blocking;
use crate::error::{ApiError, ErrorKind};
use crate::state::State;

/// Names fields of a request that zinc does not know.
const IGNORED: HeaderName = HeaderName::from_static("x-zinc-ignored");

/// The largest body that is read on a thread that serves connections, which takes less than a millisecond.
const MOST_AT_ONCE_BYTES: usize = 64 << 10;

/// The most names in that header.
const MOST_NAMES: usize = 32;

/// The fields of a request. Those that several APIs share are in a struct of their own, which is read from the same object.
#[derive(Debug)]
pub struct Fields<A, B = NoFields> {
    /// The API's own fields.
    pub own: A,
    /// Fields that it shares with others.
    pub shared: B,
    /// Fields that are in neither.
    pub ignored: Ignored,
}

/// No fields.
#[derive(Debug, Default, Deserialize)]
pub struct NoFields {}

/// Fields of a request that zinc does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored(BTreeSet<String>);

impl Ignored {
    /// Adds a name.
    pub fn add(&mut self, name: impl Into<String>) {
        self.0.insert(name.into());
    }

    /// Adds names of fields within the field `within`.
    pub fn extend(&mut self, within: &str, names: Self) {
        self.0.extend(names.0.into_iter().map(|name| format!("{within}.{name}")));
    }

    /// Adds the value at `path`, of which zinc does not know the kind, in place of the fields inside of it.
    pub fn add_whole(&mut self, path: &str, kind: &str) {
        let inside = format!("{path}.");
        self.0.retain(|name| !name.starts_with(&inside));
        self.add(format!("{path} ({kind})"));
    }

    /// Leaves out fields that are known although nothing reads them, by their paths without the places in lists.
    pub fn accept(&mut self, names: &[&str]) {
        let is_place = |part: &&str| part.parse::<usize>().is_ok();
        self.0.retain(|path| {
            let path: Vec<&str> = path.split('.').filter(|part| !is_place(part)).collect();
            !names.contains(&path.join(".").as_str())
        });
    }

    /// Names them in a header of the response, if there are any.
    #[must_use]
    pub fn named_in(&self, mut response: Response) -> Response {
        if self.0.is_empty() {
            return response;
        }
        let names: Vec<&str> = self.0.iter().take(MOST_NAMES).map(String::as_str).collect();
        let printable = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
        let names: String = names.join(", ").chars().map(printable).take(1024).collect();
        if let Ok(value) = HeaderValue::from_str(&names) {
            response.headers_mut().insert(IGNORED, value);
        }
        response
    }
}

impl<A, B> FromRequest<Arc<State>> for Fields<A, B>
where
    A: DeserializeOwned + Send + 'static,
    B: DeserializeOwned + Send + 'static,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &Arc<State>) -> Result<Self, ApiError> {
        let options = &state.options;
        let body = Limited::new(request.into_body(), options.most_body_bytes);
        let Ok(read) = tokio::time::timeout(options.timeout, body.collect()).await else {
            let seconds = options.timeout.as_secs_f64();
            return Err(ApiError::new(ErrorKind::Timeout, format!("the body did not come within {seconds} seconds")));
        };
        let bytes = read.map_err(|error| {
            if error.downcast_ref::<LengthLimitError>().is_some() {
                let most = options.most_body_bytes;
                ApiError::new(ErrorKind::TooLarge, format!("the body is larger than {most} bytes"))
            } else {
                ApiError::new(ErrorKind::InvalidRequest, "the body broke off")
            }
        })?;
        let bytes = bytes.to_bytes();
        if bytes.len() <= MOST_AT_ONCE_BYTES {
            return Self::parse(&bytes);
        }
        blocking(move || Self::parse(&bytes)).await
    }
}

impl<A: DeserializeOwned, B: DeserializeOwned> Fields<A, B> {
    /// Reads a body.
    ///
    /// # Errors
    /// What is not JSON, and fields with values that they cannot have.
    pub fn parse(bytes: &[u8]) -> Result<Self, ApiError> {
        // A body without any bytes counts as one without fields.
        let bytes = if bytes.is_empty() { b"{}" } else { bytes };
        let (own, mut ignored) = parse_one::<A>(bytes)?;
        let (shared, of_shared) = parse_one::<B>(bytes)?;
        // A field of the object is unknown if it is in neither struct; what is deeper is known to one of them at most.
        ignored.retain(|path| path.contains('.') || of_shared.contains(path));
        let deeper = of_shared.into_iter().filter(|path| path.contains('.'));
        ignored.extend(deeper);
        Ok(Self { own, shared, ignored: Ignored(ignored) })
    }
}

/// Reads a struct, and the paths of what it has no field for.
fn parse_one<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, BTreeSet<String>), ApiError> {
    let mut ignored = BTreeSet::new();
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let value = serde_ignored::deserialize(tracked, |path| {
        ignored.insert(path.to_string().replace(".?", "").replace("?.", ""));
    });
    let value = value.map_err(|error: serde_json::Error| {
        let path = track.path().to_string();
        let path = (path != ".").then_some(path);
        // Of a field that is not there the path is that of the object that lacks it.
        let text = error.to_string();
        let missing = text.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
        let param = match (path, missing) {
            (Some(path), Some(missing)) => Some(format!("{path}.{missing}")),
            (None, Some(missing)) => Some(missing.to_owned()),
            (path, None) => path,
        };
        let message = match &param {
            Some(param) => format!("{param}: {error}"),
            None => format!("the body is not what it should be: {error}"),
        };
        ApiError { param, ..ApiError::new(ErrorKind::InvalidRequest, message) }
    })?;
    json.end().map_err(|error| {
        ApiError::new(ErrorKind::InvalidRequest, format!("the body is not one JSON value: {error}"))
    })?;
    Ok((value, ignored))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Own {
        #[serde(default)]
        items: Vec<Item>,
    }

    #[derive(Debug, Deserialize)]
    struct Item {
        #[serde(default)]
        count: Option<u32>,
    }

    #[derive(Debug, Deserialize)]
    struct Shared {
        #[serde(default)]
        seed: Option<u64>,
    }

    fn parse(body: &str) -> Result<Fields<Own, Shared>, ApiError> {
        Fields::parse(body.as_bytes())
    }

    #[test]
    fn unknown_fields_are_named_by_their_paths() {
        let fields = parse(r#"{"items": [{"count": 1, "colour": 2}], "seed": 7, "shape": {"a": 1}}"#).unwrap();
        assert_eq!((fields.own.items[0].count, fields.shared.seed), (Some(1), Some(7)));
        let names: Vec<&str> = fields.ignored.0.iter().map(String::as_str).collect();
        assert_eq!(names, ["items.0.colour", "shape"]);
    }

    #[test]
    fn known_fields_that_nothing_reads_are_not_named() {
        let mut ignored = parse(r#"{"items": [{"colour": 2, "shape": 3}], "user": 1}"#).unwrap().ignored;
        ignored.accept(&["items.colour", "user"]);
        assert_eq!(ignored.0.iter().map(String::as_str).collect::<Vec<_>>(), ["items.0.shape"]);
    }

    #[test]
    fn a_value_of_unknown_kind_is_named_once() {
        let mut ignored = parse(r#"{"items": [{"colour": 2, "shape": 3}, {"colour": 4}], "user": 1}"#).unwrap().ignored;
        ignored.add_whole("items.0", "circle");
        assert_eq!(
            ignored.0.iter().map(String::as_str).collect::<Vec<_>>(),
            ["items.0 (circle)", "items.1.colour", "user"]
        );
    }

    #[test]
    fn wrong_values_are_named_by_their_paths() {
        let error = |body| parse(body).unwrap_err();
        assert_eq!(error(r#"{"items": [{"count": "x"}]}"#).param.as_deref(), Some("items[0].count"));
        assert_eq!(error(r#"{"seed": -1}"#).param.as_deref(), Some("seed"));
        for broken in ["", "{", "[1", "{} {}", "nul", "\"", "{\"seed\":1,\"seed\":2}"] {
            let result = parse(broken);
            assert_eq!(result.is_ok(), broken.is_empty(), "{broken}");
        }
    }

    #[test]
    fn deep_nesting_takes_no_stack() {
        let deep = |field: &str| format!("{{\"{field}\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(&deep("items")).is_err());
        // What nobody reads is passed over.
        assert!(parse(&deep("shape")).is_ok());
    }
}
