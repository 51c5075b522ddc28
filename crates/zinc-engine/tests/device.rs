//! A model on a Vulkan device: what is told while it is opened, and that drafts and shared devices change no answer.

use std::fs;
use std::path::{Path, PathBuf};

use zinc_engine::{
    AnswerOptions, DeviceOptions, DraftOptions, Drafter, DriveOptions, Error, FileOptions, ModelFile, Note, OpenEvent,
    Place,
};
use zinc_model::Special;
use zinc_vk::{CacheFault, Validation};

fn source_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Ten tokens of a tiny model behind a text.
fn answer(place: &Place, options: &DriveOptions, on_event: &mut dyn FnMut(OpenEvent)) -> Result<String, Error> {
    answer_in(("tests/data/tiny/qwen3-f16.gguf", 1), place, options, on_event)
}

/// The same, of the model in a file, which has so many lanes.
fn answer_in(
    (path, lanes): (&str, u32),
    place: &Place,
    options: &DriveOptions,
    on_event: &mut dyn FnMut(OpenEvent),
) -> Result<String, Error> {
    let path = source_file(path);
    let mut file_options = FileOptions::new();
    file_options.lanes = lanes;
    let file = ModelFile::open(&path, &file_options, on_event)?;
    let mut answers = AnswerOptions::new();
    answers.max_tokens = Some(10);
    let rules = answers.for_model(&file)?;
    let prompt = file.text_prompt("a telescope", Special::Plain)?;
    let model = file.load(place, options, on_event)?;
    let answer = model.answer(&rules, prompt)?.complete()?;
    model.close()?;
    Ok(answer.text)
}

#[test]
fn models_share_a_device_and_pipelines_that_are_not_kept_are_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let mut options = DeviceOptions::new();
    // As in all tests, `ZINC_TEST_VALIDATION=off` does without the layer.
    let without_layer = std::env::var_os("ZINC_TEST_VALIDATION").is_some_and(|value| value == "off");
    options.validation = if without_layer { Validation::Off } else { Validation::On };
    options.pipeline_cache_dir = Some(file.join("folder"));
    let place = Place::open(&options, &mut |_| {}).unwrap();

    let (mut weights, mut pipelines, mut not_kept) = (Vec::new(), Vec::new(), 0);
    let text = answer(&place, &DriveOptions::new(), &mut |event| match event {
        OpenEvent::Weights { done, total } => weights.push((done, total)),
        OpenEvent::Pipelines { done, total } => pipelines.push((done, total)),
        OpenEvent::Note(Note::PipelineCache(CacheFault::Unwritten { .. })) => not_kept += 1,
        other => panic!("{other:?}"),
    });
    let text = text.unwrap();
    for events in [&weights, &pipelines] {
        let (done, total) = *events.last().expect("progress is told");
        assert!(done == total && total > 0 && events.is_sorted(), "{events:?}");
    }
    assert_eq!(not_kept, 1);

    assert_eq!(answer(&Place::Interpreter, &DriveOptions::new(), &mut |_| {}).unwrap(), text);
    let drafted_in = |lanes, source| {
        let mut load = DriveOptions::new();
        load.draft = Some(DraftOptions::new(source));
        answer_in(("tests/data/tiny/qwen3-f16.gguf", lanes), &place, &load, &mut |_| {})
    };
    let drafted = |source| drafted_in(1, source);
    assert_eq!(drafted_in(3, Drafter::Lookup).unwrap(), text);
    let refused = drafted_in(3, Drafter::Model(source_file("tests/data/tiny/qwen3-f16.gguf"))).unwrap_err();
    assert!(refused.to_string().contains("is 3") && refused.to_string().contains("1 with a draft model"), "{refused}");
    assert_eq!(drafted(Drafter::Lookup).unwrap(), text);
    assert_eq!(drafted(Drafter::Model(source_file("tests/data/tiny/qwen3-f16.gguf"))).unwrap(), text);
    let demo = source_file("models/zinc-demo-q4_k_m.gguf");
    match drafted(Drafter::Model(demo.clone())) {
        Err(Error::DraftVocabulary { path, draft: 8192, target, .. }) if path == demo && target < 8192 => {}
        other => panic!("{other:?}"),
    }

    // Recurrent states have room for the drafts of steps. A draft model has none.
    let recurrent = "tests/data/arch/qwen35-a-f16.gguf";
    match drafted(Drafter::Model(source_file(recurrent))) {
        Err(Error::DraftRecurrent { path }) if path == source_file(recurrent) => {}
        other => panic!("{other:?}"),
    }
    let text = answer_in((recurrent, 1), &Place::Interpreter, &DriveOptions::new(), &mut |_| {}).unwrap();
    for lanes in [1, 3] {
        assert_eq!(answer_in((recurrent, lanes), &place, &DriveOptions::new(), &mut |_| {}).unwrap(), text);
        let mut load = DriveOptions::new();
        load.draft = Some(DraftOptions::new(Drafter::Lookup));
        assert_eq!(answer_in((recurrent, lanes), &place, &load, &mut |_| {}).unwrap(), text);
    }
}
