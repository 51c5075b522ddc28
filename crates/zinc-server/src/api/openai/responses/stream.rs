//! A response as server-sent events. Each event has its type in its name and in its data, and a number that counts from 0.

use serde::Serialize;

use super::output::{Output, Sink};
use super::reply::{Header, Outcome, ResponseReply};
use crate::core::{Event, Update};
use crate::stream::{Lines, named_event};

/// Writes the events of a response.
pub(super) struct ResponseLines {
    header: Header,
    output: Output,
    outcome: Outcome,
    sequence: u64,
}

/// Writes events with their numbers.
struct Numbered<'a> {
    out: &'a mut Vec<u8>,
    sequence: &'a mut u64,
}

#[derive(Serialize)]
struct Data<'a, F> {
    #[serde(rename = "type")]
    kind: &'static str,
    sequence_number: u64,
    #[serde(flatten)]
    fields: &'a F,
}

#[derive(Serialize)]
struct ResponseEvent<'a> {
    response: ResponseReply<'a>,
}

impl Sink for Numbered<'_> {
    fn event(&mut self, kind: &'static str, fields: &impl Serialize) {
        named_event(self.out, kind, &Data { kind, sequence_number: *self.sequence, fields });
        *self.sequence += 1;
    }
}

impl ResponseLines {
    pub(super) fn new(header: Header, output: Output) -> Self {
        Self { header, output, outcome: Outcome::InProgress, sequence: 0 }
    }

    /// Writes the whole response in an event of this type.
    fn whole(&mut self, kind: &'static str, out: &mut Vec<u8>) {
        let response = self.header.reply(&self.output, &self.outcome);
        Numbered { out, sequence: &mut self.sequence }.event(kind, &ResponseEvent { response });
    }

    /// Writes the last event.
    fn last(&mut self, out: &mut Vec<u8>) {
        let kind = match self.outcome.status() {
            "incomplete" => "response.incomplete",
            "failed" => "response.failed",
            _ => "response.completed",
        };
        self.whole(kind, out);
        // The specification of Open Responses wants this line, and OpenAI's clients take it for the end.
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

impl Lines for ResponseLines {
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.whole("response.created", out);
        self.whole("response.in_progress", out);
    }

    fn update(&mut self, update: Update, out: &mut Vec<u8>) {
        match update.event {
            Event::Ended(end) => {
                self.output.end(&end, &mut Numbered { out, sequence: &mut self.sequence });
                self.outcome = Outcome::Ended(end);
            }
            Event::Failed(error) => {
                self.output.break_off();
                self.outcome = Outcome::Failed(error);
                self.last(out);
            }
            event => self.output.take(event, &mut Numbered { out, sequence: &mut self.sequence }),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.last(out);
    }
}
