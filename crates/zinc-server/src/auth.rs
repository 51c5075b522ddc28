//! Who may use the server: keys, and the requests that web pages make behind a user's back.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State as Shared};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq as _;

use crate::error::{ApiError, ErrorKind};
use crate::state::State;

/// Paths that need no key: whether the server is well is no secret.
const PUBLIC: [&str; 3] = ["/health", "/v1/health", "/live"];

/// The keys of which a request has to have one. They are never shown.
#[derive(Clone, Default)]
pub struct Keys(Vec<Arc<str>>);

impl Keys {
    /// Keys without white space around them; empty ones are none.
    #[must_use]
    pub fn new<K: AsRef<str>>(keys: impl IntoIterator<Item = K>) -> Self {
        let keys = keys.into_iter().map(|key| key.as_ref().trim().into());
        Self(keys.filter(|key: &Arc<str>| !key.is_empty()).collect())
    }

    /// Whether there is none, so that none is needed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose key it is; `None` if it is nobody's. It takes as long for any key of the same length.
    pub(crate) fn owner(&self, given: &str) -> Option<Owner> {
        let mut owner = None;
        for (index, key) in self.0.iter().enumerate() {
            if bool::from(key.as_bytes().ct_eq(given.as_bytes())) {
                owner = owner.or(Some(Owner(index)));
            }
        }
        owner
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

/// Whose a request is: the key that it came with. Without keys all requests are of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner(usize);

impl Owner {
    /// The number by which the scheduler knows the owner.
    pub(crate) fn number(self) -> u64 {
        self.0 as u64
    }
}

/// Who makes a request, and of which server.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The server.
    pub state: Arc<State>,
    /// Whose the request is.
    pub owner: Owner,
}

impl FromRequestParts<Arc<State>> for Caller {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, Self::Rejection> {
        let owner = parts.extensions.get::<Owner>().copied().unwrap_or_default();
        Ok(Self { state: Arc::clone(state), owner })
    }
}

/// Lets a request through that may be made, and answers preflights of web pages.
pub(crate) async fn guard(Shared(state): Shared<Arc<State>>, mut request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed = origin.filter(|origin| is_listed(&state.options.cors_origins, origin));
    let response = if request.method() == Method::OPTIONS && allowed.is_some() {
        StatusCode::NO_CONTENT.into_response()
    } else {
        match check(&state, request.headers(), request.uri().path()) {
            Ok(owner) => {
                request.extensions_mut().insert(owner);
                next.run(request).await
            }
            Err(error) => error.into_response(),
        }
    };
    match allowed {
        Some(origin) => with_cors(response, origin),
        None => response,
    }
}

fn check(state: &State, headers: &HeaderMap, path: &str) -> Result<Owner, ApiError> {
    let keys = &state.options.keys;
    if keys.is_empty() {
        check_host(&state.options.allowed_hosts, headers)?;
        check_origin(&state.options.cors_origins, headers)?;
        return Ok(Owner::default());
    }
    if PUBLIC.contains(&path) {
        return Ok(Owner::default());
    }
    let refuse = |message: &str| {
        Err(ApiError { code: Some("invalid_api_key"), ..ApiError::new(ErrorKind::Authentication, message) })
    };
    match given_key(headers) {
        None => refuse("this server needs an API key: Authorization: Bearer KEY, or x-api-key: KEY"),
        Some(given) => keys.owner(given).map_or_else(|| refuse("the API key is not one of this server's"), Ok),
    }
}

/// The key of a request.
fn given_key(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    bearer.or_else(|| headers.get("x-api-key")?.to_str().ok().map(str::trim))
}

/// Refuses names that the server does not go by: a web page whose own name suddenly leads to this machine would have its name there.
fn check_host(allowed: &[String], headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(host) = headers.get(header::HOST) else { return Ok(()) };
    let name = host.to_str().ok().map(host_name).unwrap_or_default();
    let own = name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok();
    if own || allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    let message = format!("the server does not go by the name {name:?}; --allowed-host {name} changes that");
    Err(ApiError { code: Some("host_not_allowed"), ..ApiError::new(ErrorKind::Permission, message) })
}

/// Refuses web pages that are not listed. Programs that show pages of their own, such as editors, have other schemes.
fn check_origin(listed: &[String], headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let text = origin.to_str().unwrap_or_default();
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let is_own = match host {
        // The page is the server's own, or there is no page.
        Some(host) => headers.get(header::HOST).is_some_and(|own| own.as_bytes() == host.as_bytes()),
        None => text.contains("://"),
    };
    if is_own || is_listed(listed, origin) {
        return Ok(());
    }
    let message = "web pages of other origins may not use this server; --cors-origin lists those that may";
    Err(ApiError { code: Some("origin_not_allowed"), ..ApiError::new(ErrorKind::Permission, message) })
}

fn is_listed(listed: &[String], origin: &HeaderValue) -> bool {
    listed.iter().any(|listed| listed == "*" || listed.as_bytes() == origin.as_bytes())
}

/// A host without its port.
fn host_name(host: &str) -> &str {
    if let Some(address) = host.strip_prefix('[') {
        return address.split(']').next().unwrap_or_default();
    }
    host.split(':').next().unwrap_or_default()
}

fn with_cors(mut response: Response, origin: HeaderValue) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, OPTIONS"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*, Authorization"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn keys_are_compared_whole_and_never_shown() {
        let keys = Keys::new([" one ", "", "two"]);
        assert_eq!(keys.owner("one"), Some(Owner(0)));
        assert_eq!(keys.owner("two"), Some(Owner(1)));
        for wrong in ["", "on", "onee", "ONE"] {
            assert_eq!(keys.owner(wrong), None, "{wrong}");
        }
        assert_eq!(format!("{keys:?}"), "2 keys");
    }

    #[test]
    fn a_key_comes_in_either_header() {
        for pairs in [[("authorization", "Bearer k")], [("authorization", "bearer k")], [("x-api-key", "k")]] {
            assert_eq!(given_key(&headers(&pairs)), Some("k"), "{pairs:?}");
        }
        assert_eq!(given_key(&headers(&[("authorization", "Basic k")])), None);
    }

    #[test]
    fn names_of_the_machine_and_addresses_are_taken() {
        let allowed = ["gpu.lan".to_owned()];
        let check = |host| check_host(&allowed, &headers(&[("host", host)]));
        for host in
            ["localhost", "LOCALHOST:8080", "a.localhost", "127.0.0.1:8080", "[::1]:8080", "10.0.0.7", "gpu.lan:1"]
        {
            assert_eq!(check(host), Ok(()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:8080", "notlocalhost"] {
            assert_eq!(check(host).unwrap_err().kind, ErrorKind::Permission, "{host}");
        }
    }

    #[test]
    fn pages_of_others_are_refused() {
        let listed = ["https://chat.example".to_owned()];
        let check = |origin| check_origin(&listed, &headers(&[("host", "127.0.0.1:8080"), ("origin", origin)]));
        for origin in ["https://chat.example", "http://127.0.0.1:8080", "vscode-file://vscode-app", "tauri://localhost"]
        {
            assert_eq!(check(origin), Ok(()), "{origin}");
        }
        for origin in ["https://evil.example", "null", "http://127.0.0.1:3000", ""] {
            assert_eq!(check(origin).unwrap_err().kind, ErrorKind::Permission, "{origin}");
        }
    }
}
