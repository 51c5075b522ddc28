//! An HTML page with the picture, a title, a caption and a table of the figures. It has no scripts and loads nothing.

use super::picture::{self, Cut, escaped};
use super::recorded::Recorded;

const STYLE: &str = "body { font: 15px/1.5 Helvetica, Arial, sans-serif; color: #222; background: #fff; max-width: 1240px; margin: 2em auto; padding: 0 1em; } \
     svg { width: 100%; height: auto; } table { border-collapse: collapse; } \
     th, td { text-align: left; padding: 0.2em 1.2em 0.2em 0; border-bottom: 1px solid #ccc; } th { font-weight: normal; color: #666; }";

const CAPTION: &str = "Host and GPU on one clock. Each box of the GPU is the computation of one token, with the token's position in it; red is where \
     the GPU stands idle before the next. Point at a box for its length.";

/// Draws traces below one another, with their figures.
pub(super) fn html(traces: &[Recorded], cut: Cut) -> String {
    let picture = picture::svg(traces, cut);
    let tables: String = traces.iter().map(table).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>The seam between tokens</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>The seam between tokens</h1>\n<p>{CAPTION}</p>\n{picture}{tables}</body>\n</html>\n"
    )
}

fn table(recorded: &Recorded) -> String {
    let device = ("device", recorded.device.clone());
    let steps = ("steps in the trace", recorded.steps.len().to_string());
    let rows = [device, steps].into_iter().filter(|(_, value)| !value.is_empty()).chain(picture::figures(recorded));
    let rows: String =
        rows.map(|(name, value)| format!("<tr><th>{name}</th><td>{}</td></tr>\n", escaped(&value))).collect();
    format!("<h2>{}</h2>\n<table>\n{rows}</table>\n", escaped(&recorded.title()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_the_picture_and_a_table_for_each_trace() {
        let trace = |sync: &str| Recorded {
            sync: sync.to_owned(),
            depth: 4,
            device: "<a card>".to_owned(),
            tokens_per_second: Some(12.34),
            ..Recorded::default()
        };
        let page = html(&[trace("fence"), trace("timeline")], Cut::default());
        assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
        assert_eq!((page.matches("<svg ").count(), page.matches("<table>").count()), (1, 2));
        assert!(page.contains("<tr><th>speed</th><td>12.3 tokens/s</td></tr>"), "{page}");
        assert!(page.contains("&lt;a card&gt;") && !page.contains("<a card>"), "{page}");
        assert!(!page.contains("<script") && !page.contains("src="), "{page}");
    }
}
