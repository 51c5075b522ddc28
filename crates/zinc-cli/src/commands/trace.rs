//! `zinc trace`: recorded traces as a picture.

use crate::args::TraceArgs;
use crate::error::Result;
use crate::trace;

pub(crate) fn run(args: &TraceArgs) -> Result<()> {
    let traces = args.files.iter().map(|path| trace::read(path)).collect::<Result<Vec<_>>>()?;
    trace::draw(&args.output, &traces, args.cut())
}
