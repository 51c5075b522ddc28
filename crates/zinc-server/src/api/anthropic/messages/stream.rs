//! A message as server-sent events. Each event has its type in its name and in its data.

use serde::Serialize;

use super::blocks::{Blocks, Sink};
use super::reply::{Header, MessageReply, Stop, UsageReply};
use crate::core::{End, Event, Update};
use crate::stream::{Lines, named_event};

/// Writes the events of a message.
pub(super) struct MessageLines {
    header: Header,
    prompt_tokens: u32,
    blocks: Blocks,
    end: Option<End>,
}

/// Writes events.
struct Named<'a>(&'a mut Vec<u8>);

#[derive(Serialize)]
struct Data<'a, F> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    fields: &'a F,
}

#[derive(Serialize)]
struct BeginEvent<'a> {
    message: MessageReply<'a>,
}

#[derive(Serialize)]
struct EndEvent<'a> {
    delta: Stop<'a>,
    usage: UsageReply,
}

#[derive(Serialize)]
struct NoFields {}

impl Sink for Named<'_> {
    fn event(&mut self, kind: &'static str, fields: &impl Serialize) {
        named_event(self.0, kind, &Data { kind, fields });
    }
}

impl MessageLines {
    pub(super) fn new(header: Header, prompt_tokens: u32) -> Self {
        Self { header, prompt_tokens, blocks: Blocks::default(), end: None }
    }
}

impl Lines for MessageLines {
    fn begin(&mut self, out: &mut Vec<u8>) {
        Named(out).event("message_start", &BeginEvent { message: self.header.begin(self.prompt_tokens) });
    }

    fn update(&mut self, update: Update, out: &mut Vec<u8>) {
        match update.event {
            Event::Ended(end) => {
                self.blocks.end(&mut Named(out));
                self.end = Some(end);
            }
            Event::Failed(error) => named_event(out, "error", &error.anthropic_body()),
            event => self.blocks.take(event, &mut Named(out)),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        let Some(end) = &self.end else { return };
        Named(out).event("message_delta", &EndEvent { delta: end.into(), usage: end.into() });
        Named(out).event("message_stop", &NoFields {});
    }

    fn ping(&self) -> &'static [u8] {
        b"event: ping\ndata: {\"type\": \"ping\"}\n\n"
    }
}
