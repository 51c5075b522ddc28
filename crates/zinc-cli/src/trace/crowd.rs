//! Draws the steps of several sequences as an SVG picture: a row for each lane above one axis of time. The SVG needs no other file.

use zinc_sched::{StepStatus, Trace};

use super::picture::{CHARACTER, INK, LEFT, PALE, PLOT, RIGHT, Scale, Svg, WIDTH, axis, time_text};

/// The steps of one sequence of a run.
#[derive(Debug)]
pub(crate) struct LaneTrace {
    /// The number of its request, from 0 in the order of arrival.
    number: usize,
    arrived_ns: u64,
    trace: Trace,
}

impl LaneTrace {
    /// The steps of request number `number`, which arrived at `arrived_ns` on the clock of the steps.
    pub(crate) fn new(number: usize, arrived_ns: u64, trace: Trace) -> Self {
        Self { number, arrived_ns, trace }
    }

    /// When its steps ran, and what they did.
    fn boxes(&self) -> impl Iterator<Item = StepBox> {
        self.trace.steps.iter().filter(|step| step.status != StepStatus::NoOp).map(|step| {
            let timing = step.timing;
            // Without timestamps of the device, the host's are all that is known.
            let (begin_ns, end_ns) =
                timing.gpu.map_or((timing.submit_done_ns, timing.observed_at_ns), |gpu| (gpu.begin_ns, gpu.end_ns));
            StepBox { begin_ns, end_ns, fed: step.fed, tokens: step.tokens, rows: step.rows }
        })
    }
}

/// A step in a row of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StepBox {
    begin_ns: u64,
    end_ns: u64,
    fed: u32,
    tokens: u32,
    /// Those of all sequences of the step.
    rows: u32,
}

const TOP: f64 = 52.0;
const ROW: f64 = 26.0;
const BAND: f64 = 20.0;
const AXIS_HEIGHT: f64 = 38.0;
const LEGEND: f64 = 30.0;

/// Colours that can be told apart in grey and by the colour-blind.
const FEEDS: &str = "#e69f00";
const SAMPLES: [&str; 2] = ["#a9d8c1", "#8cc9ad"];
const WAITS: &str = "#dddddd";

/// Draws the sequences of a run, each in the first row that is free when its first step begins.
pub(super) fn svg(title: &str, sequences: &[LaneTrace]) -> String {
    let mut order: Vec<(&LaneTrace, Vec<StepBox>)> = sequences
        .iter()
        .map(|of| (of, of.boxes().collect::<Vec<StepBox>>()))
        .filter(|(_, boxes)| !boxes.is_empty())
        .collect();
    order.sort_by_key(|(_, boxes)| boxes[0].begin_ns);
    let rows = rows(&order);
    let count = rows.iter().max().map_or(0, |row| row + 1);
    let begin_ns = order.iter().map(|(of, _)| of.arrived_ns).min().unwrap_or(0);
    let end_ns = order.iter().flat_map(|(_, boxes)| boxes).map(|step| step.end_ns).max().unwrap_or(0);
    let scale = Scale { begin_ns, span_ns: end_ns.saturating_sub(begin_ns).max(1) as f64 };
    let height = TOP + ROW * count as f64 + AXIS_HEIGHT + LEGEND;
    let mut svg = Svg::default();
    svg.line(&format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="Helvetica, Arial, sans-serif" font-size="11" fill="{INK}">"#
    ));
    svg.line(r##"<rect width="100%" height="100%" fill="#ffffff"/>"##);
    svg.text(LEFT, 28.0, r#"font-size="14" font-weight="bold""#, title);
    for row in 0..count {
        let top = TOP + ROW * row as f64;
        svg.text(LEFT - 10.0, top + 14.0, r#"text-anchor="end" font-weight="bold""#, &format!("lane {row}"));
        svg.outline(LEFT, top, PLOT, BAND);
    }
    for ((of, boxes), row) in order.iter().zip(&rows) {
        let top = TOP + ROW * *row as f64;
        draw(&mut svg, top, &scale, of, boxes);
    }
    let end = TOP + ROW * count as f64;
    axis(&mut svg, end, &scale);
    legend(&mut svg, end + AXIS_HEIGHT);
    svg.line("</svg>");
    svg.text
}

/// The row of each sequence: the first that no sequence before has until its own first step begins.
fn rows(order: &[(&LaneTrace, Vec<StepBox>)]) -> Vec<usize> {
    let mut free_from_ns: Vec<u64> = Vec::new();
    let row = |(_, boxes): &(&LaneTrace, Vec<StepBox>)| {
        let (begin_ns, end_ns) = (boxes[0].begin_ns, boxes.iter().map(|step| step.end_ns).max().unwrap_or(0));
        let row = free_from_ns.iter().position(|free| *free <= begin_ns).unwrap_or(free_from_ns.len());
        if row == free_from_ns.len() {
            free_from_ns.push(0);
        }
        free_from_ns[row] = end_ns;
        row
    };
    order.iter().map(row).collect()
}

fn draw(svg: &mut Svg, top: f64, scale: &Scale, of: &LaneTrace, boxes: &[StepBox]) {
    let number = of.number;
    for step in boxes {
        let Some((x, width)) = scale.place(step.begin_ns, step.end_ns) else { continue };
        let length = time_text(step.end_ns.saturating_sub(step.begin_ns) as f64);
        let (colour, words) = match (step.fed, step.tokens) {
            (0, _) => (SAMPLES[number % SAMPLES.len()], "a token".to_owned()),
            (fed, 0) => (FEEDS, format!("{fed} tokens of the prompt")),
            (fed, _) => (FEEDS, format!("the last {} tokens of the prompt and the first token behind", fed + 1)),
        };
        let shared = match step.rows {
            rows if step.fed > 0 && rows > step.fed + step.tokens => format!(", in a step of {rows} rows"),
            _ => String::new(),
        };
        svg.rect(x, top, width, BAND, colour, &format!("request {number}: {words}{shared}, {length}"));
    }
    let first_ns = boxes[0].begin_ns;
    if let Some((x, width)) = scale.place(of.arrived_ns, first_ns).filter(|_| first_ns > of.arrived_ns) {
        let waited = time_text((first_ns - of.arrived_ns) as f64);
        svg.rect(
            x,
            top + BAND - 4.0,
            width,
            4.0,
            WAITS,
            &format!("request {number} waits for a lane and its first step: {waited}"),
        );
    }
}

fn legend(svg: &mut Svg, top: f64) {
    let mut x = LEFT;
    for (colour, words) in [
        (FEEDS, "a step that feeds a prompt, with what runs between its ranges"),
        (SAMPLES[0], "a token"),
        (WAITS, "waits since its arrival"),
    ] {
        svg.rect(x, top, 12.0, 12.0, colour, "");
        svg.text(x + 17.0, top + 10.0, "", words);
        x += 31.0 + CHARACTER * words.len() as f64;
    }
    svg.text(
        WIDTH - RIGHT,
        top + 10.0,
        &format!(r#"text-anchor="end" fill="{PALE}""#),
        "point at a box for its length",
    );
}

#[cfg(test)]
mod tests {
    use zinc_sched::{GpuSpan, StepKind, StepTiming, StepTrace};

    use super::*;

    /// A sequence with steps at these times, in microseconds; the first feeds.
    fn sequence(number: usize, arrived_us: u64, steps: &[(u64, u64)]) -> LaneTrace {
        let step = |(index, &(begin_us, end_us)): (usize, &(u64, u64))| StepTrace {
            step: index as u32,
            kind: if index == 0 { StepKind::Feed } else { StepKind::Decode },
            position: index as u32,
            tokens: u32::from(index > 0),
            fed: if index == 0 { 32 } else { 0 },
            rows: if index == 0 { 32 } else { 1 },
            status: if index == 0 { StepStatus::Fed } else { StepStatus::Emitted },
            timing: StepTiming {
                gpu: Some(GpuSpan { begin_ns: begin_us * 1000, end_ns: end_us * 1000, idle_ns: 0 }),
                ..StepTiming::default()
            },
        };
        let steps = steps.iter().enumerate().map(step).collect();
        LaneTrace::new(number, arrived_us * 1000, Trace { steps, ..Trace::default() })
    }

    #[test]
    fn each_lane_has_a_row_and_each_step_a_box() {
        let sequences = [
            sequence(0, 0, &[(10, 20), (20, 25), (45, 50)]),
            sequence(1, 22, &[(25, 45), (50, 55)]),
            sequence(2, 23, &[(55, 60)]),
            sequence(3, 24, &[]),
        ];
        let text = svg("8 < 9", &sequences);
        assert!(text.starts_with("<svg ") && text.trim_end().ends_with("</svg>"), "{text}");
        assert!(text.contains("8 &lt; 9") && text.contains("lane 1") && !text.contains("lane 2"), "{text}");
        assert_eq!(text.matches("32 tokens of the prompt").count(), 3);
        assert_eq!(text.matches(": a token, ").count(), 3);
        assert_eq!(text.matches("waits for a lane").count(), 3);
    }

    #[test]
    fn a_row_is_used_again_when_its_sequence_has_ended() {
        let sequences = [
            sequence(0, 0, &[(0, 10)]),
            sequence(1, 0, &[(5, 30)]),
            sequence(2, 0, &[(10, 20)]),
            sequence(3, 0, &[(15, 16)]),
        ];
        let order: Vec<(&LaneTrace, Vec<StepBox>)> = sequences.iter().map(|of| (of, of.boxes().collect())).collect();
        assert_eq!(rows(&order), [0, 1, 0, 2]);
        assert!(svg("nothing", &[]).contains("</svg>"));
    }
}
