//! Answers as streams: events become lines as they come, several at a time where they come fast, and silence is broken now and then.

use std::convert::Infallible;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_core::Stream;
use serde::Serialize;
use tokio::time::{Instant, Sleep};

use crate::core::{Answering, Update};

/// The most events that become one write.
const MOST_AT_ONCE: usize = 64;

/// Writes the events of answers in the shape of an API.
pub trait Lines: Send + Unpin + 'static {
    /// Writes what comes before all events.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Writes an event. The end of an answer or a failure comes once for each answer, but nothing comes after a failure.
    fn update(&mut self, update: Update, out: &mut Vec<u8>);

    /// Writes what comes after the end of all answers, which does not come after a failure.
    fn finish(&mut self, out: &mut Vec<u8>);

    /// What breaks a silence: by default a comment. It is one line without an empty line behind it, since some readers take that for an event.
    fn ping(&self) -> &'static [u8] {
        b": ping\n"
    }
}

/// The form of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamForm {
    /// Server-sent events.
    Events,
    /// A JSON object in each line.
    JsonLines,
}

/// The response that streams answers. If whoever reads it leaves, they are cancelled.
pub fn response(form: StreamForm, answering: Answering, lines: impl Lines, ping: Option<Duration>) -> Response {
    let silence = ping.map(|period| (period, Box::pin(tokio::time::sleep(period))));
    let stream = Streamed { answering, lines, silence, updates: Vec::new(), stage: Stage::Begin };
    let mut response = Body::from_stream(stream).into_response();
    let content_type = match form {
        StreamForm::Events => "text/event-stream; charset=utf-8",
        StreamForm::JsonLines => "application/x-ndjson",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies such as nginx would gather the events otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Writes a server-sent event without a name.
pub fn event(out: &mut Vec<u8>, data: &impl Serialize) {
    out.extend_from_slice(b"data: ");
    json(out, data);
    out.extend_from_slice(b"\n\n");
}

/// Writes a server-sent event with a name.
pub fn named_event(out: &mut Vec<u8>, name: &str, data: &impl Serialize) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    event(out, data);
}

/// Writes a JSON object as a line of its own.
pub fn json_line(out: &mut Vec<u8>, data: &impl Serialize) {
    json(out, data);
    out.push(b'\n');
}

fn json(out: &mut Vec<u8>, data: &impl Serialize) {
    // Structs of texts and numbers can always be written, and a vector takes it all.
    if let Err(error) = serde_json::to_writer(&mut *out, data) {
        tracing::error!(%error, "an event could not be written");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    Events,
    Over,
}

/// A silence that is broken: after how long, and when that is next.
type Silence = (Duration, Pin<Box<Sleep>>);

struct Streamed<L> {
    answering: Answering,
    lines: L,
    silence: Option<Silence>,
    updates: Vec<Update>,
    stage: Stage,
}

impl<L: Lines> Streamed<L> {
    /// Writes what has come.
    fn write(&mut self, out: &mut Vec<u8>) {
        let mut is_over = self.updates.is_empty();
        let mut has_failed = false;
        for update in self.updates.drain(..) {
            has_failed |= matches!(update.event, crate::core::Event::Failed(_));
            self.lines.update(update, out);
            if has_failed {
                break;
            }
        }
        is_over |= self.answering.is_over();
        if has_failed {
            self.stage = Stage::Over;
        } else if is_over {
            self.lines.finish(out);
            self.stage = Stage::Over;
        }
    }

    fn restart_silence(&mut self) {
        if let Some((period, sleep)) = &mut self.silence {
            sleep.as_mut().reset(Instant::now() + *period);
        }
    }
}

impl<L: Lines> Stream for Streamed<L> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.stage == Stage::Over {
            return Poll::Ready(None);
        }
        let mut out = Vec::new();
        if this.stage == Stage::Begin {
            this.stage = Stage::Events;
            this.lines.begin(&mut out);
        }
        // An event may write nothing, so that the next is needed.
        while this.stage == Stage::Events
            && this.answering.poll_many(context, &mut this.updates, MOST_AT_ONCE).is_ready()
        {
            this.write(&mut out);
            if !out.is_empty() {
                break;
            }
        }
        if out.is_empty() {
            if this.stage == Stage::Over {
                return Poll::Ready(None);
            }
            let Some((_, sleep)) = &mut this.silence else { return Poll::Pending };
            std::task::ready!(sleep.as_mut().poll(context));
            out.extend_from_slice(this.lines.ping());
        }
        this.restart_silence();
        Poll::Ready(Some(Ok(out.into())))
    }
}
