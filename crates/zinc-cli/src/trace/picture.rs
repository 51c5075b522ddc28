//! Draws a trace as an SVG picture: the host's band and the GPU's band above one axis of time. The SVG needs no other file.

use std::fmt::Write as _;

use super::lanes::{Activity, GpuSpan, Lanes};
use super::recorded::{Recorded, Step};

/// How many steps are shown by default: few enough for a gap of a hundredth of a step to be seen.
pub(crate) const DEFAULT_STEPS: u32 = 8;

/// Which part of a trace is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The first step that is shown. `None`: the steps shown are in the middle of the generation.
    pub(crate) from: Option<u32>,
    /// How many steps are shown, at least 1. Of several traces, the one whose steps take longest sets the scale, and the others show more.
    pub(crate) steps: u32,
}

impl Default for Cut {
    fn default() -> Self {
        Self { from: None, steps: DEFAULT_STEPS }
    }
}

pub(super) const WIDTH: f64 = 1200.0;
/// Width of the names to the left of the bands.
pub(super) const LEFT: f64 = 64.0;
pub(super) const RIGHT: f64 = 20.0;
pub(super) const PLOT: f64 = WIDTH - LEFT - RIGHT;

/// Where the parts of a panel lie, counted from its top, and how high a band, a panel and the legend are, all in units
/// of the SVG.
const TITLE: f64 = 16.0;
const FIGURES: f64 = 34.0;
const HOST: f64 = 46.0;
const BAND: f64 = 30.0;
const GAP_LABELS: f64 = 92.0;
const GPU: f64 = 97.0;
const AXIS: f64 = GPU + BAND + 6.0;
const PANEL: f64 = AXIS + 38.0;
const LEGEND: f64 = 30.0;

/// The least width of a box in units of the SVG. Without it the box of a submit call, which takes about a thousandth of
/// a step, could not be seen.
const SLIVER: f64 = 1.2;

/// The margin to the left and to the right of the shown steps, as a share of the time that these steps take together.
const MARGIN: f64 = 0.02;

/// The approximate width of a character of a label, in units of the SVG.
pub(super) const CHARACTER: f64 = 6.3;

/// The most ticks on an axis.
const TICKS: f64 = 10.0;

/// Colours that can be told apart in grey and by the colour-blind. Only those of idle time, which should not be there, are saturated.
const SUBMIT: &str = "#e69f00";
const WAIT: &str = "#dddddd";
const WORK: &str = "#7fbbe3";
const STEPS: [&str; 2] = ["#a9d8c1", "#8cc9ad"];
const NO_OP: &str = "#ffffff";
const IDLE: &str = "#d7191c";
pub(super) const INK: &str = "#222222";
pub(super) const PALE: &str = "#666666";

/// The most important figures of a trace, each as a name and a value for display.
pub(super) fn figures(recorded: &Recorded) -> Vec<(&'static str, String)> {
    let seam = &recorded.summary.decode;
    let rate = recorded.tokens_per_second.map(|rate| ("speed", format!("{rate:.1} tokens/s")));
    let gap = seam.idle_gap_ns.map(|gap| {
        let (median, p99) = (time_text(gap.median as f64), time_text(gap.p99 as f64));
        ("GPU idle between steps", format!("median {median}, 99 % within {p99}"))
    });
    let step = seam.gpu_step_ns.map(|step| ("GPU step", format!("median {}", time_text(step.median as f64))));
    let ahead = seam.submitted_ahead_share;
    let ahead = ahead.map(|share| ("submitted ahead", format!("{:.0} % of the steps", 100.0 * share)));
    [rate, gap, step, ahead].into_iter().flatten().collect()
}

/// Draws traces below one another on one scale, each from the first of its steps that the cut names.
pub(crate) fn svg(traces: &[Recorded], cut: Cut) -> String {
    let views: Vec<View<'_>> = traces.iter().map(|recorded| View::new(recorded, cut)).collect();
    let span_ns = views.iter().map(|view| view.end_ns.saturating_sub(view.begin_ns)).max().unwrap_or(0).max(1);
    let height = 12.0 + PANEL * views.len() as f64 + LEGEND;
    let mut svg = Svg::default();
    svg.line(&format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="Helvetica, Arial, sans-serif" font-size="11" fill="{INK}">"#
    ));
    svg.line(r##"<rect width="100%" height="100%" fill="#ffffff"/>"##);
    for (index, view) in views.iter().enumerate() {
        let scale = Scale { begin_ns: view.begin_ns, span_ns: span_ns as f64 };
        view.draw(&mut svg, 12.0 + PANEL * index as f64, &scale);
    }
    legend(&mut svg, height - LEGEND + 8.0);
    svg.line("</svg>");
    svg.text
}

/// The part of a trace that one panel draws.
struct View<'a> {
    recorded: &'a Recorded,
    lanes: Lanes,
    /// Begin of the first and end of the last step that the cut names, in nanoseconds.
    begin_ns: u64,
    end_ns: u64,
}

impl<'a> View<'a> {
    fn new(recorded: &'a Recorded, cut: Cut) -> Self {
        let lanes = Lanes::of(recorded);
        let steps = &recorded.steps;
        let count = cut.steps.max(1) as usize;
        let first = match cut.from {
            Some(from) => steps.partition_point(|step| step.step < from),
            None => {
                // The steps shown are the middle ones of the generation, without no-ops, or of the prompt if nothing
                // was generated.
                let generated = steps.iter().position(|step| !step.kind.starts_with("feed")).unwrap_or(0);
                let ran = steps[generated.min(steps.len())..].iter().take_while(|step| step.ran()).count();
                generated + ran.saturating_sub(count) / 2
            }
        };
        let shown = first.min(steps.len())..first.saturating_add(count).min(steps.len());
        let spans: Vec<&GpuSpan> = lanes.gpu.iter().filter(|span| shown.contains(&span.of)).collect();
        let (begin_ns, end_ns) = match (spans.first(), spans.last()) {
            (Some(first), Some(last)) => (first.begin_ns, last.end_ns),
            // Without timestamps of the device only the host's times are known.
            _ => {
                let steps = &steps[shown];
                (steps.first().map_or(0, |s| s.submitted_at_ns), steps.last().map_or(0, |s| s.observed_at_ns))
            }
        };
        Self { recorded, lanes, begin_ns, end_ns }
    }

    fn draw(&self, svg: &mut Svg, top: f64, scale: &Scale) {
        let device = &self.recorded.device;
        let figures: Vec<String> =
            figures(self.recorded).iter().map(|(name, value)| format!("{name}: {value}")).collect();
        svg.text(LEFT, top + TITLE, r#"font-size="14" font-weight="bold""#, &self.recorded.title());
        svg.text(WIDTH - RIGHT, top + TITLE, &format!(r#"text-anchor="end" fill="{PALE}""#), device);
        svg.text(LEFT, top + FIGURES, "", &figures.join(" · "));
        for (name, band) in [("host", HOST), ("GPU", GPU)] {
            svg.text(LEFT - 10.0, top + band + 19.0, r#"text-anchor="end" font-weight="bold""#, name);
            svg.outline(LEFT, top + band, PLOT, BAND);
        }
        if self.recorded.steps.is_empty() {
            svg.text(LEFT + 8.0, top + HOST + 19.0, "", "no steps");
        } else if self.lanes.gpu.is_empty() {
            svg.text(LEFT + 8.0, top + GPU + 19.0, "", "the device takes no timestamps");
        }
        self.host(svg, top + HOST, scale);
        self.gpu(svg, top, scale);
        axis(svg, top + AXIS, scale);
    }

    fn host(&self, svg: &mut Svg, top: f64, scale: &Scale) {
        // Short spans are drawn last, so that they lie above their neighbours.
        for wanted in [Activity::Wait, Activity::Work, Activity::Submit] {
            for span in self.lanes.host.iter().filter(|span| span.activity == wanted) {
                let Some((x, width)) = scale.place(span.begin_ns, span.end_ns) else { continue };
                let step = &self.recorded.steps[span.of];
                let length = time_text((span.end_ns - span.begin_ns) as f64);
                let (colour, words) = match span.activity {
                    Activity::Wait => (WAIT, "waits for"),
                    Activity::Work => (WORK, "works on"),
                    Activity::Submit => (SUBMIT, "submits"),
                };
                svg.rect(x, top, width, BAND, colour, &format!("host {words} {}: {length}", named(step)));
                if span.activity == Activity::Work && step.ran() {
                    svg.number(x, top, width, &step.positions());
                }
            }
        }
    }

    fn gpu(&self, svg: &mut Svg, top: f64, scale: &Scale) {
        for span in &self.lanes.gpu {
            let Some((x, width)) = scale.place(span.begin_ns, span.end_ns) else { continue };
            let step = &self.recorded.steps[span.of];
            let length = time_text((span.end_ns - span.begin_ns) as f64);
            let colour = if step.ran() { STEPS[step.position as usize % STEPS.len()] } else { NO_OP };
            svg.rect(x, top + GPU, width, BAND, colour, &format!("GPU computes {}: {length}", named(step)));
            if step.ran() {
                svg.number(x, top + GPU, width, &step.positions());
            }
            if let Some((x, width)) = scale.place(span.end_ns - span.idle_ns, span.end_ns).filter(|_| span.idle_ns > 0)
            {
                // It is not recorded when in the step the GPU idled. It was before sampling, which comes last.
                let title = format!("GPU idle within the step: {}", microseconds_text(span.idle_ns as f64));
                svg.rect(x, top + GPU + BAND / 2.0, width, BAND / 2.0, IDLE, &title);
            }
        }
        let mut labelled_to = LEFT;
        for (begin_ns, end_ns) in self.lanes.gaps() {
            let Some((x, width)) = scale.place(begin_ns, end_ns) else { continue };
            let microseconds = microseconds_text((end_ns - begin_ns) as f64);
            svg.rect(x, top + GPU, width, BAND, IDLE, &format!("GPU idle: {microseconds}"));
            let half = CHARACTER * microseconds.chars().count() as f64 / 2.0;
            let middle = (x + width / 2.0).clamp(LEFT + half, LEFT + PLOT - half);
            if middle - half >= labelled_to {
                let attributes = format!(r#"text-anchor="middle" font-weight="bold" fill="{IDLE}""#);
                svg.text(middle, top + GAP_LABELS, &attributes, &microseconds);
                labelled_to = middle + half + CHARACTER;
            }
        }
    }
}

/// A description of what a step computes.
fn named(step: &Step) -> String {
    match (step.ran(), step.tokens + step.fed) {
        (false, _) => "a step without effect".to_owned(),
        (true, 0 | 1) => format!("token {}", step.positions()),
        (true, _) => format!("tokens {}", step.positions()),
    }
}

/// Converts times to places in the picture.
pub(super) struct Scale {
    pub(super) begin_ns: u64,
    pub(super) span_ns: f64,
}

impl Scale {
    /// The place of a time that is `ns` after the begin of the first step.
    fn x(&self, ns: f64) -> f64 {
        LEFT + PLOT * (ns / self.span_ns + MARGIN) / (1.0 + 2.0 * MARGIN)
    }

    /// Left edge and width of a span; `None` if it is outside of the picture.
    pub(super) fn place(&self, begin_ns: u64, end_ns: u64) -> Option<(f64, f64)> {
        let relative =
            |ns: u64| if ns >= self.begin_ns { (ns - self.begin_ns) as f64 } else { -((self.begin_ns - ns) as f64) };
        let (begin, end) = (self.x(relative(begin_ns)), self.x(relative(end_ns)));
        if end <= LEFT || begin >= LEFT + PLOT {
            return None;
        }
        let (begin, end) = (begin.max(LEFT), end.min(LEFT + PLOT));
        let width = (end - begin).max(SLIVER);
        Some((begin.min(LEFT + PLOT - width), width))
    }
}

/// The ticks of the axis at round numbers, with a suitable unit.
pub(super) fn axis(svg: &mut Svg, top: f64, scale: &Scale) {
    let step = round_step(scale.span_ns / TICKS);
    let (unit_ns, unit) = match step {
        step if step >= 1e9 => (1e9, "s"),
        step if step >= 1e6 => (1e6, "ms"),
        step if step >= 1e3 => (1e3, "µs"),
        _ => (1.0, "ns"),
    };
    svg.line(&format!(r#"<path d="M{LEFT} {top}H{:.1}" stroke="{PALE}" fill="none"/>"#, LEFT + PLOT));
    for tick in 0..=(scale.span_ns / step) as u32 {
        let ns = step * f64::from(tick);
        let (x, value) = (scale.x(ns), (ns / unit_ns * 1e3).round() / 1e3);
        svg.line(&format!(r#"<path d="M{x:.1} {top}v5" stroke="{PALE}"/>"#));
        svg.text(x, top + 17.0, r#"text-anchor="middle""#, &format!("{value} {unit}"));
    }
}

/// The smallest of 1, 2, 5, 10, 20, ... that is not less than the number, and at least 1.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1.0).log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|step| *step >= least).unwrap_or(10.0 * power)
}

fn legend(svg: &mut Svg, top: f64) {
    let entries = [
        (SUBMIT, "host submits (with a fence, after recording)"),
        (WAIT, "host waits"),
        (WORK, "host works on the token"),
        (STEPS[0], "GPU computes the token"),
        (IDLE, "GPU idle"),
    ];
    let mut x = LEFT;
    for (colour, words) in entries {
        svg.rect(x, top, 12.0, 12.0, colour, "");
        svg.text(x + 17.0, top + 10.0, "", words);
        x += 17.0 + CHARACTER * words.chars().count() as f64 + 14.0;
    }
    svg.text(WIDTH - RIGHT, top + 10.0, &format!(r#"text-anchor="end" fill="{PALE}""#), "numbers: positions of tokens");
}

/// Nanoseconds as text in microseconds, with a decimal for small numbers.
fn microseconds_text(ns: f64) -> String {
    let microseconds = ns / 1e3;
    if microseconds < 100.0 { format!("{microseconds:.1} µs") } else { format!("{microseconds:.0} µs") }
}

/// Nanoseconds as text in a suitable unit.
pub(super) fn time_text(ns: f64) -> String {
    match ns {
        ns if ns < 1e6 => microseconds_text(ns),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// Escapes text for XML, between tags and in attributes. Characters that XML cannot represent become the replacement character.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Writes SVG, element by element.
#[derive(Default)]
pub(super) struct Svg {
    pub(super) text: String,
}

impl Svg {
    pub(super) fn line(&mut self, element: &str) {
        writeln!(self.text, "{element}").expect("a string takes everything");
    }

    /// Adds a filled box with a title, which viewers show when the pointer is above it.
    pub(super) fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, colour: &str, title: &str) {
        let edge = if colour == NO_OP { r##" stroke="#999999" stroke-dasharray="3 2""## } else { "" };
        let title = if title.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(title)) };
        self.line(&format!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}"{edge}>{title}</rect>"#
        ));
    }

    pub(super) fn outline(&mut self, x: f64, y: f64, width: f64, height: f64) {
        self.line(&format!(
            r##"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="#f6f6f6" stroke="#bbbbbb"/>"##
        ));
    }

    /// Adds the positions of a step in the middle of its box, if there is room.
    fn number(&mut self, x: f64, y: f64, width: f64, text: &str) {
        if width >= CHARACTER * (text.len() as f64 + 0.5) {
            self.text(x + width / 2.0, y + BAND / 2.0 + 4.0, r#"text-anchor="middle""#, text);
        }
    }

    pub(super) fn text(&mut self, x: f64, y: f64, attributes: &str, text: &str) {
        let space = if attributes.is_empty() { "" } else { " " };
        self.line(&format!(r#"<text x="{x:.1}" y="{y:.1}"{space}{attributes}>{}</text>"#, escaped(text)));
    }
}

#[cfg(test)]
mod tests {
    use zinc_sched::Quantiles;

    use super::super::recorded::{SeamSummary, Stamps, Summary};
    use super::*;

    /// A trace of steps that take `length` microseconds, one every `period`.
    fn recorded(sync: &str, depth: u32, count: u32, length: u64, period: u64) -> Recorded {
        let step = |step: u32| {
            let begin_ns = 1_000_000_000 + u64::from(step) * period * 1000;
            let end_ns = begin_ns + length * 1000;
            // With a fence a step is submitted just before it begins, and otherwise one period earlier.
            let submitted_at_ns = if sync == "fence" { begin_ns - 30_000 } else { begin_ns - period * 1000 };
            let submit_done_ns = if sync == "fence" { end_ns + 20_000 } else { submitted_at_ns + 3_000 };
            Step {
                step,
                kind: "decode".to_owned(),
                position: 40 + step,
                tokens: 1,
                fed: 0,
                status: "emitted".to_owned(),
                submitted_at_ns,
                submit_done_ns,
                observed_at_ns: end_ns + 20_000,
                gpu: Some(Stamps { begin_ns, end_ns, idle_ns: 0 }),
            }
        };
        let quantiles = |us: u64| Some(Quantiles { median: us * 1000, p99: us * 1100, max: us * 1200 });
        let decode = SeamSummary {
            idle_gap_ns: quantiles(period - length),
            gpu_step_ns: quantiles(length),
            submitted_ahead_share: Some(if sync == "fence" { 0.0 } else { 1.0 }),
        };
        Recorded {
            sync: sync.to_owned(),
            depth,
            device: "A card".to_owned(),
            host_work_us: 0,
            tokens_per_second: Some(1e6 / period as f64),
            summary: Summary { decode },
            steps: (0..count).map(step).collect(),
        }
    }

    fn count(text: &str, part: &str) -> usize {
        text.matches(part).count()
    }

    /// Checks that every element is closed, and that no number is NaN or infinite.
    #[track_caller]
    fn check(svg: &str) {
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
        for wrong in ["NaN", "inf", "width=\"-", "height=\"-"] {
            assert!(!svg.contains(wrong), "{wrong} in {svg}");
        }
        for element in ["text", "title"] {
            assert_eq!(count(svg, &format!("<{element}")), count(svg, &format!("</{element}>")), "{element} in {svg}");
        }
        let mut boxes = svg.lines().filter(|line| line.starts_with("<rect"));
        assert!(boxes.all(|line| line.ends_with("</rect>") || line.ends_with("/>")), "{svg}");
    }

    #[test]
    fn fence_above_timeline_is_drawn_as_before() {
        let traces = [recorded("fence", 1, 4, 100, 150), recorded("timeline", 2, 6, 100, 102)];
        let svg = svg(&traces, Cut { from: Some(1), steps: 2 });
        check(&svg);
        let golden = include_str!("../../tests/data/fence-above-timeline.svg");
        assert!(svg == golden, "the picture differs from tests/data/fence-above-timeline.svg; it is now:\n{svg}");
    }

    #[test]
    fn gaps_are_marked_with_their_length_and_slivers_are_wide_enough_to_see() {
        let text = svg(&[recorded("timeline", 4, 20, 10_000, 10_002)], Cut::default());
        check(&text);
        let gaps: Vec<&str> = text.lines().filter(|line| line.contains("<title>GPU idle: 2.0 µs")).collect();
        // There are seven gaps between the eight steps, and one on either side.
        assert_eq!(gaps.len(), 9, "{text}");
        assert!(gaps.iter().all(|gap| gap.contains("width=\"1.2\"")), "{text}");
        assert_eq!(count(&text, ">2.0 µs</text>"), 9, "{text}");
        // Of the 20 steps the middle 8 are shown, and narrow parts of those next to them.
        let steps: Vec<u32> = (40..60).filter(|n| text.contains(&format!("GPU computes token {n}:"))).collect();
        assert_eq!(steps, (45..=54).collect::<Vec<_>>());
    }

    #[test]
    fn labels_that_would_lie_on_each_other_are_left_out() {
        let text = svg(&[recorded("timeline", 4, 300, 100, 102)], Cut { from: Some(0), steps: 200 });
        check(&text);
        let labels = count(&text, ">2.0 µs</text>");
        assert!((10..40).contains(&labels), "{labels}");
        assert!(count(&text, "<title>GPU idle") >= 199, "{text}");
    }

    #[test]
    fn an_empty_trace_and_one_step() {
        let text = svg(&[recorded("timeline", 4, 0, 100, 150)], Cut::default());
        check(&text);
        assert!(text.contains("no steps"), "{text}");
        let text = svg(&[recorded("timeline", 1, 1, 100, 150)], Cut::default());
        check(&text);
        assert!(text.contains("1 step in flight") && text.contains("GPU computes token 40: 100 µs"), "{text}");
        let beyond = svg(&[recorded("fence", 1, 3, 100, 150)], Cut { from: Some(u32::MAX), steps: u32::MAX });
        check(&beyond);
        check(&svg(&[], Cut::default()));
    }

    #[test]
    fn without_timestamps_the_host_alone_is_drawn() {
        let mut trace = recorded("timeline", 2, 5, 100, 150);
        trace.steps.iter_mut().for_each(|step| step.gpu = None);
        trace.summary = Summary::default();
        let text = svg(&[trace], Cut::default());
        check(&text);
        assert!(text.contains("takes no timestamps") && text.contains("host waits for token 41"), "{text}");
    }

    #[test]
    fn steps_without_effect_are_outlined() {
        let mut trace = recorded("timeline", 4, 5, 100, 150);
        trace.steps[4].status = "no_op".to_owned();
        let text = svg(&[trace], Cut::default());
        check(&text);
        assert!(text.contains("stroke-dasharray=\"3 2\"><title>GPU computes a step without effect"), "{text}");
    }

    #[test]
    fn steps_of_several_tokens_name_them_and_idling_within_a_step_is_marked() {
        let mut trace = recorded("timeline", 4, 3, 100, 150);
        trace.steps[1].tokens = 4;
        trace.steps[1].gpu.as_mut().unwrap().idle_ns = 12_000;
        let text = svg(&[trace], Cut::default());
        check(&text);
        assert!(text.contains("GPU computes tokens 41-44: 100 µs") && text.contains(">41-44</text>"), "{text}");
        assert_eq!(count(&text, "GPU idle within the step: 12.0 µs"), 1, "{text}");
    }

    #[test]
    fn huge_and_broken_numbers_are_drawn_all_the_same() {
        let mut trace = recorded("timeline", u32::MAX, 3, 100, 150);
        trace.host_work_us = u64::MAX;
        trace.tokens_per_second = Some(1e300);
        trace.steps[2].gpu = Some(Stamps { begin_ns: u64::MAX - 1, end_ns: u64::MAX, idle_ns: u64::MAX });
        check(&svg(&[trace.clone()], Cut::default()));
        trace.steps[0].gpu = Some(Stamps { begin_ns: u64::MAX, end_ns: 0, idle_ns: 1 });
        trace.steps[1].observed_at_ns = 0;
        check(&svg(&[trace], Cut::default()));
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(
            escaped("<a href='x'>\"&\"</a>\n\u{7}"),
            "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;&lt;/a&gt; \u{fffd}"
        );
        let trace = Recorded {
            sync: "</text><script>".to_owned(),
            device: "a & b <c>".to_owned(),
            ..recorded("timeline", 4, 3, 100, 150)
        };
        let text = svg(&[trace], Cut::default());
        check(&text);
        assert!(text.contains("a &amp; b &lt;c&gt;") && !text.contains("<script>"), "{text}");
    }

    #[test]
    fn ticks_are_round() {
        for (least, step) in
            [(0.0, 1.0), (1.0, 1.0), (1.1, 2.0), (3.0, 5.0), (7.0, 10.0), (12_000.0, 20_000.0), (5e8, 5e8)]
        {
            assert_eq!(round_step(least), step, "{least}");
        }
        assert_eq!((time_text(14_540.0), time_text(352_400.0)), ("14.5 µs".to_owned(), "352 µs".to_owned()));
        assert_eq!((time_text(2_310_000.0), time_text(1.2e9)), ("2.31 ms".to_owned(), "1.20 s".to_owned()));
    }
}
