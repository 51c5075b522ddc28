//! Writes a trace as Chrome's trace events, which <https://ui.perfetto.dev> and `chrome://tracing` can open.

use serde_json::{Value, json};

use super::lanes::{Activity, Lanes};
use super::recorded::{KEY, Recorded, Step};

/// The id of the only process in the file.
const PROCESS: u32 = 1;

/// The ids of the threads that stand for the lanes.
const LANES: [&str; 4] = ["host: submit", "host: wait", "host: work on the token", "GPU: steps"];
const GPU_LANE: usize = 3;

/// The whole file: the trace events, and the trace itself under [`KEY`].
pub(super) fn file(recorded: &Recorded, document: &Value) -> Value {
    json!({ "displayTimeUnit": "ns", "traceEvents": events(recorded), KEY: document })
}

/// The names of the lanes, and a complete event for each span. Times are in microseconds since the begin of the first span.
fn events(recorded: &Recorded) -> Vec<Value> {
    let lanes = Lanes::of(recorded);
    let origin_ns = lanes.origin_ns();
    let mut events = vec![metadata("process_name", None, &json!({ "name": process_name(recorded) }))];
    for (lane, name) in LANES.iter().enumerate() {
        events.push(metadata("thread_name", Some(lane), &json!({ "name": name })));
        events.push(metadata("thread_sort_index", Some(lane), &json!({ "sort_index": lane })));
    }
    let host = lanes.host.iter().map(|span| {
        let (lane, what) = match span.activity {
            Activity::Submit => (0, "submit"),
            Activity::Wait => (1, "wait for"),
            Activity::Work => (2, "work on"),
        };
        let step = &recorded.steps[span.of];
        let name = if step.ran() { format!("{what} {}", step.positions()) } else { format!("{what} a no-op") };
        complete(lane, &name, origin_ns, (span.begin_ns, span.end_ns), step)
    });
    let gpu = lanes.gpu.iter().map(|span| {
        let step = &recorded.steps[span.of];
        let name = if step.ran() { step.positions() } else { "no-op".to_owned() };
        let mut event = complete(GPU_LANE, &name, origin_ns, (span.begin_ns, span.end_ns), step);
        if span.idle_ns > 0 {
            event["args"]["idle_us"] = microseconds(span.idle_ns).into();
        }
        event
    });
    events.extend(host.chain(gpu));
    events
}

fn process_name(recorded: &Recorded) -> String {
    let device = &recorded.device;
    let on = if device.is_empty() { String::new() } else { format!(", on {device}") };
    format!("zinc, {}{on}", recorded.title())
}

fn metadata(kind: &str, lane: Option<usize>, args: &Value) -> Value {
    let mut event = json!({ "name": kind, "ph": "M", "pid": PROCESS, "args": args });
    if let Some(lane) = lane {
        event["tid"] = thread(lane).into();
    }
    event
}

fn complete(lane: usize, name: &str, origin_ns: u64, (begin_ns, end_ns): (u64, u64), step: &Step) -> Value {
    json!({
        "name": name,
        "ph": "X",
        "pid": PROCESS,
        "tid": thread(lane),
        "ts": microseconds(begin_ns.saturating_sub(origin_ns)),
        "dur": microseconds(end_ns - begin_ns),
        "args": {
            "step": step.step,
            "position": step.position,
            "tokens": step.tokens,
            "fed": step.fed,
            "shape": step.kind,
            "status": step.status,
        },
    })
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// No thread has the id 0, which some viewers take for the idle thread.
fn thread(lane: usize) -> usize {
    lane + 1
}

#[cfg(test)]
mod tests {
    use super::super::recorded::Stamps;
    use super::*;

    fn recorded() -> Recorded {
        let step = |position, at: u64, status: &str| Step {
            step: position - 5,
            kind: "decode".to_owned(),
            position,
            tokens: if status == "no_op" { 0 } else { 3 },
            fed: 0,
            status: status.to_owned(),
            submitted_at_ns: at,
            submit_done_ns: at + 3_500,
            observed_at_ns: at + 60_000,
            gpu: Some(Stamps {
                begin_ns: at + 10_000,
                end_ns: at + 50_000,
                idle_ns: if position == 5 { 2_500 } else { 0 },
            }),
        };
        // The times are so large that microseconds as f64 would lose the nanoseconds, if they were not counted from the first event.
        let origin = 1 << 60;
        Recorded {
            sync: "timeline".to_owned(),
            depth: 1,
            device: "a \"card\"".to_owned(),
            steps: vec![step(5, origin, "emitted"), step(6, origin + 75_001, "no_op")],
            ..Recorded::default()
        }
    }

    #[test]
    fn every_span_is_a_complete_event_on_its_lane() {
        let file = file(&recorded(), &json!({ "sync": "timeline" }));
        assert_eq!(file["zinc"]["sync"], "timeline");
        let events = file["traceEvents"].as_array().unwrap();
        let named = |event: &&Value| event["ph"] == "M" && event["name"] == "thread_name";
        let names: Vec<&str> =
            events.iter().filter(named).map(|event| event["args"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, LANES);
        assert_eq!(events[0]["args"]["name"], "zinc, timeline: 1 step in flight, on a \"card\"");
        let spans: Vec<(u64, &str, f64, f64)> = events
            .iter()
            .filter(|event| event["ph"] == "X")
            .map(|event| {
                let number = |key: &str| event[key].as_f64().unwrap();
                (event["tid"].as_u64().unwrap(), event["name"].as_str().unwrap(), number("ts"), number("dur"))
            })
            .collect();
        let expected = [
            (1, "submit 5-7", 0.0, 3.5),
            (2, "wait for 5-7", 3.5, 56.5),
            (3, "work on 5-7", 60.0, 15.001),
            (1, "submit a no-op", 75.001, 3.5),
            (2, "wait for a no-op", 78.501, 56.5),
            (4, "5-7", 10.0, 40.0),
            (4, "no-op", 85.001, 40.0),
        ];
        assert_eq!(spans, expected);
        let last = events.last().unwrap();
        assert_eq!(
            last["args"],
            json!({ "step": 1, "position": 6, "tokens": 0, "fed": 0, "shape": "decode", "status": "no_op" })
        );
        let idle: Vec<&Value> = events.iter().filter_map(|event| event["args"].get("idle_us")).collect();
        assert_eq!(idle, [2.5]);
        assert!(events.iter().all(|event| event["pid"] == 1), "{file}");
    }

    #[test]
    fn a_trace_without_steps_is_a_file_without_spans() {
        let file = file(&Recorded::default(), &json!({}));
        assert_eq!(file["traceEvents"].as_array().unwrap().len(), 9);
    }
}
