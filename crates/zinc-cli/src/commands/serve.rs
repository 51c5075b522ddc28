//! `zinc serve`: a model over HTTP.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use zinc_engine::{DeviceChoice, FileOptions, LoadedModel, ModelFile};
use zinc_model::ChatTemplate;
use zinc_sched::Tracing;
use zinc_server::Server;
use zinc_server::backend::{Backend, Loaded};
use zinc_server::fake::{FakeModel, Script};
use zinc_server::state::State;

use crate::args::{Device, Format, ServeArgs};
use crate::commands::devices;
use crate::error::{Error, INTERRUPTED, Result};
use crate::opening::Opening;
use crate::{demo, gpu_access, options, output, surroundings};

/// Requests that run at the same time, unless asked otherwise.
const LANES: u32 = 4;

/// The most threads that may block.
const MOST_THREADS: usize = 4096;

/// How long threads may take to end behind the last request.
const LINGER: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    if args.engine.device.list_devices {
        return devices::list(Format::Text);
    }
    let (server_options, file_options) = (options::server_options(args)?, file_options(args)?);
    let runtime = runtime(args)?;
    let server = runtime.block_on(Server::bind(server_options))?;
    output::stderr_line(&format!("listening at http://{}", server.address()));
    let state = Arc::clone(server.state());
    let is_loaded = Arc::new(AtomicBool::new(false));
    let serving = runtime.spawn(server.run(first_signal(Arc::clone(&is_loaded))));
    match load(args, &file_options, &state) {
        Ok(backend) => {
            is_loaded.store(true, Relaxed);
            state.serve(backend);
        }
        Err(error) => {
            // Its message may name files, which are nobody else's business.
            state.give_up("the log of the server says why");
            runtime.shutdown_background();
            return Err(error);
        }
    }
    let served = state.served().map(|served| served.alias.clone()).unwrap_or_default();
    output::stderr_line(&format!("serving {served}"));
    drop(state);
    let ended = runtime.block_on(serving);
    runtime.shutdown_timeout(LINGER);
    ended.map_err(|error| Error::usage(format!("the server broke: {error}")))
}

/// The threads of the server: as many as may be needed for requests that wait and run, each of which has one, and for the text work of others.
fn runtime(args: &ServeArgs) -> Result<Runtime> {
    let most = (args.max_queue as usize).saturating_add(256).min(MOST_THREADS);
    let built = Builder::new_multi_thread().enable_all().max_blocking_threads(most).build();
    built.map_err(|error| Error::usage(format!("cannot start threads: {error}")))
}

/// How the model file is opened: for how many requests at a time, and with how much room for them.
fn file_options(args: &ServeArgs) -> Result<FileOptions> {
    let mut file_options = options::engine_file_options(&args.engine);
    let draft = &args.engine.draft;
    let drafter = draft.draft.as_ref().map(|_| "--draft").or(draft.draft_mtp.then_some("--draft-mtp"));
    let alone =
        drafter.is_some() || args.engine.device.device.as_ref().is_some_and(|device| *device == Device::Interpreter);
    let lanes = args.parallel.unwrap_or(if alone { 1 } else { LANES });
    if let Some(drafter) = drafter.filter(|_| lanes > 1) {
        return Err(Error::usage(format!(
            "{drafter} drafts for one request at a time, and -np {lanes} asks for {lanes}: use -np 1, or --draft-ngram instead"
        )));
    }
    options::set_lanes(&mut file_options, lanes, args.cache_tokens)?;
    Ok(file_options)
}

/// Loads what is served, while requests are told to wait.
fn load(args: &ServeArgs, file_options: &FileOptions, state: &State) -> Result<Box<dyn Backend>> {
    if let Some(path) = &args.fake {
        return Ok(Box::new(FakeModel::new(script(path)?)?));
    }
    let path = demo::resolve(args.model.model.as_deref())?;
    let mut opening = Opening::new();
    let mut show = |event| opening.show(event);
    let device = options::device_options(args.engine.device.device.as_ref(), args.engine.device.units.matrix_units)?;
    let drive = {
        let mut drive = options::drive_options(&args.engine, Duration::ZERO, Tracing::Off);
        drive.queue_capacity = args.max_queue as usize;
        drive.reopen = Some(device.clone());
        drive
    };
    let file = ModelFile::open(&path, file_options, &mut show)?;
    let template = match args.template.read()? {
        Some(source) => Some((ChatTemplate::for_file(&source, &file.model().file)?, source)),
        None => None,
    };
    // What is wrong with the defaults is said before gigabytes are loaded.
    state.options.defaults.clone().for_model(&file)?;
    let place = surroundings::open_place(&device, &mut show)?;
    if device.device == DeviceChoice::Best && !args.cpu {
        gpu_access::require(&place)?;
    }
    let model: LoadedModel = file.load(&place, &drive, &mut show)?;
    Ok(Box::new(Loaded::new(model, template)))
}

/// Reads a script, and waits as long as it wants the model to load.
fn script(path: &Path) -> Result<Script> {
    let text = fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let script: Script = serde_json::from_str(&text)
        .map_err(|error| Error::Content { path: path.to_owned(), reason: error.to_string() })?;
    std::thread::sleep(Duration::from_millis(script.load_ms));
    Ok(script)
}

/// Completes with the first Ctrl-C or request to end. The second ends the process at once, and so does the first while the model loads. Where the
/// signals are not the command's, it never completes.
async fn first_signal(is_loaded: Arc<AtomicBool>) {
    if !surroundings::are_the_process() {
        return std::future::pending().await;
    }
    signal().await;
    if !is_loaded.load(Relaxed) {
        std::process::exit(i32::from(INTERRUPTED));
    }
    output::stderr_line("ending when what runs is answered; once more ends at once");
    tokio::spawn(async {
        signal().await;
        std::process::exit(i32::from(INTERRUPTED));
    });
}

/// Completes with the next signal to end.
async fn signal() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signals) => {
                signals.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}
