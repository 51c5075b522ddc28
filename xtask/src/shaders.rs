//! `cargo xtask shaders` compiles GLSL to the committed SPIR-V and generates the Rust that describes its interfaces.
//!
//! The GLSL under `shaders/` is the only source of a kernel's interface. Each kernel is compiled twice. The SPIR-V that is compiled
//! without optimisation still carries names, so the interface is read from it; the optimised one is committed. Shaders that have a second
//! form are compiled once more for it. `--check` needs no
//! compiler: it compares the files' hashes with those that the generated file records.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

#[cfg(feature = "shaderc")]
use crate::glsl;
#[cfg(feature = "shaderc")]
use crate::reflect::{Interface, Member, reflect};

/// The result of a verb. An error is one message for the terminal.
type Result<T> = std::result::Result<T, String>;

/// The generated Rust, relative to the root.
const GENERATED: &str = "crates/zinc-kernels/src/generated.rs";
/// The folder of the committed SPIR-V, relative to the root.
const SPIRV_DIR: &str = "crates/zinc-kernels/spv";

/// Compiles all kernels and writes the generated files, or with `check` compares them with their sources.
pub(crate) fn run(root: &Path, check: bool) -> Result<()> {
    if check { check_hashes(root) } else { generate(root) }
}

/// Hashes of every GLSL file and of every SPIR-V file, by path relative to the root.
fn hashes(root: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for directory in ["shaders", "shaders/include", SPIRV_DIR] {
        for path in files(&root.join(directory))? {
            let bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let name = path.strip_prefix(root).map_err(|e| e.to_string())?.display().to_string();
            found.insert(name, hex(&Sha256::digest(&bytes)));
        }
    }
    Ok(found)
}

/// The files in a folder, sorted by path; folders in it are left out.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))? {
        let path = entry.map_err(|e| e.to_string())?.path();
        if path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Compares the hashes of all sources and outputs with those recorded in the generated file.
fn check_hashes(root: &Path) -> Result<()> {
    let generated = fs::read_to_string(root.join(GENERATED)).map_err(|e| format!("{GENERATED}: {e}"))?;
    let recorded: BTreeMap<String, String> = generated
        .lines()
        .filter_map(|line| line.strip_prefix("//   "))
        .filter_map(|line| line.split_once(' '))
        .map(|(hash, name)| (name.to_owned(), hash.to_owned()))
        .collect();
    let actual = hashes(root)?;
    let mut stale: Vec<&String> =
        actual.iter().filter(|(name, hash)| recorded.get(*name) != Some(hash)).map(|(name, _)| name).collect();
    stale.extend(recorded.keys().filter(|name| !actual.contains_key(*name)));
    if stale.is_empty() {
        println!("shaders: {} files match {GENERATED}", actual.len());
        return Ok(());
    }
    let list: Vec<&str> = stale.into_iter().map(String::as_str).collect();
    Err(format!(
        "the committed SPIR-V is stale: {}. Run `cargo run -p xtask --features shaderc -- shaders`.",
        list.join(", ")
    ))
}

#[cfg(not(feature = "shaderc"))]
fn generate(_root: &Path) -> Result<()> {
    Err("this xtask was built without the shader compiler. Run `cargo run -p xtask --features shaderc -- shaders` (needs cmake, a C++ \
         compiler and Python; the first build takes over ten minutes)."
        .to_owned())
}

/// Compiles every shader and writes the SPIR-V and the generated Rust.
#[cfg(feature = "shaderc")]
fn generate(root: &Path) -> Result<()> {
    let spirv_dir = root.join(SPIRV_DIR);
    let _ = fs::remove_dir_all(&spirv_dir);
    fs::create_dir_all(&spirv_dir).map_err(|e| e.to_string())?;
    let mut kernels = Vec::new();
    for path in files(&root.join("shaders"))? {
        let stem = path.file_stem().and_then(|s| s.to_str()).ok_or("a shader's name is not UTF-8")?.to_owned();
        let source = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let form = Form::of(&stem);
        let unoptimised = compile(root, &stem, &source, form, Optimise::No)?;
        let interface = reflect(&unoptimised).map_err(|e| format!("{stem}: {e}"))?;
        write_words(&spirv_dir.join(format!("{stem}.spv")), &compile(root, &stem, &source, form, Optimise::Yes)?)?;
        if let Some(Second { form, suffix, .. }) = Second::of(&stem, &source) {
            let words = compile(root, &stem, &source, form, Optimise::Yes)?;
            write_words(&spirv_dir.join(format!("{stem}.{suffix}.spv")), &words)?;
        }
        kernels.push(Kernel { stem, source, interface });
    }
    let includes = files(&root.join("shaders/include"))?
        .into_iter()
        .map(|p| {
            fs::read_to_string(&p).map(|text| (p.file_stem().unwrap_or_default().to_string_lossy().into_owned(), text))
        })
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|e| e.to_string())?;
    let text = render(&kernels, &includes, &hashes(root)?)?;
    fs::write(root.join(GENERATED), text).map_err(|e| e.to_string())?;
    println!("shaders: {} kernels written to {SPIRV_DIR} and {GENERATED}", kernels.len());
    Ok(())
}

/// A kernel, as the generated Rust describes it.
#[cfg(feature = "shaderc")]
struct Kernel {
    /// The shader's file name without `.comp`.
    stem: String,
    /// The shader's GLSL.
    source: String,
    interface: Interface,
}

/// What is defined where a shader is compiled.
#[cfg(feature = "shaderc")]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Nothing.
    Plain,
    /// `MATRIX_UNITS`.
    Units,
    /// `IN_TURN` as 1.
    InTurn,
}

#[cfg(feature = "shaderc")]
impl Form {
    /// Shaders for matrix units have names that end so.
    fn of(stem: &str) -> Self {
        if stem.ends_with("_units") { Self::Units } else { Self::Plain }
    }

    /// The macro that is defined, and its value.
    fn definition(self) -> Option<(&'static str, Option<&'static str>)> {
        match self {
            Self::Plain => None,
            Self::Units => Some(("MATRIX_UNITS", None)),
            Self::InTurn => Some(("IN_TURN", Some("1"))),
        }
    }
}

/// The second form of a shader, of which the generated Rust has a kernel with the same interface.
#[cfg(feature = "shaderc")]
struct Second {
    form: Form,
    /// What the names of its file and of its kernel end with.
    suffix: &'static str,
    /// What the generated Rust says of its kernel.
    doc: &'static str,
}

#[cfg(feature = "shaderc")]
impl Second {
    /// Shaders for matrix units are compiled without them, too, and those that leave `IN_TURN` to be defined are compiled with it.
    fn of(stem: &str, source: &str) -> Option<Self> {
        if Form::of(stem) == Form::Units {
            let doc = "The kernel with ordinary arithmetic in place of matrix units.";
            return Some(Self { form: Form::Plain, suffix: "emulated", doc });
        }
        let doc = "The kernel that takes the vectors of a tile one after the other.";
        source.contains("#ifndef IN_TURN").then_some(Self { form: Form::InTurn, suffix: "in_turn", doc })
    }
}

#[cfg(feature = "shaderc")]
fn write_words(path: &Path, words: &[u32]) -> Result<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    fs::write(path, &bytes).map_err(|e| format!("{}: {e}", path.display()))
}

/// Whether a shader is compiled with optimisation.
#[cfg(feature = "shaderc")]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Optimise {
    No,
    Yes,
}

/// Compiles the shader `stem` to the words of a SPIR-V module.
#[cfg(feature = "shaderc")]
fn compile(root: &Path, stem: &str, source: &str, form: Form, optimise: Optimise) -> Result<Vec<u32>> {
    let compiler = shaderc::Compiler::new().map_err(|e| e.to_string())?;
    let mut options = shaderc::CompileOptions::new().map_err(|e| e.to_string())?;
    options.set_target_env(shaderc::TargetEnv::Vulkan, shaderc::EnvVersion::Vulkan1_2 as u32);
    options.set_warnings_as_errors();
    options.set_optimization_level(match optimise {
        Optimise::No => shaderc::OptimizationLevel::Zero,
        Optimise::Yes => shaderc::OptimizationLevel::Performance,
    });
    if let Some((name, value)) = form.definition() {
        options.add_macro_definition(name, value);
    }
    let shaders = root.join("shaders");
    options.set_include_callback(move |name, _, from, _| {
        let path = shaders.join(name);
        let content = fs::read_to_string(&path).map_err(|e| format!("{from} includes {name}: {e}"))?;
        Ok(shaderc::ResolvedInclude { resolved_name: name.to_owned(), content })
    });
    let artifact = compiler
        .compile_into_spirv(source, shaderc::ShaderKind::Compute, &format!("{stem}.comp"), "main", Some(&options))
        .map_err(|e| e.to_string())?;
    Ok(artifact.as_binary().to_vec())
}

/// The text of the generated Rust.
#[cfg(feature = "shaderc")]
fn render(kernels: &[Kernel], includes: &[(String, String)], hashes: &BTreeMap<String, String>) -> Result<String> {
    let mut out = String::from(
        "//! Interfaces of the kernels. Written by `cargo xtask shaders` from the GLSL under `shaders/`; edit that instead.\n\n\
         // Hashes by which `--check` tells whether this file is up to date:\n",
    );
    for (name, hash) in hashes {
        let _ = writeln!(out, "//   {hash} {name}");
    }
    out.push_str("\nuse crate::kernel::KernelDef;\n");

    for (stem, source) in includes {
        let structs: Vec<(&String, &Vec<Member>)> = kernels
            .iter()
            .flat_map(|k| &k.interface.structs)
            .filter(|(name, _)| glsl::declares_block(source, name))
            .fold(BTreeMap::new(), |mut all, (name, members)| {
                all.insert(name, members);
                all
            })
            .into_iter()
            .collect();
        let constants = glsl::constants(source);
        if structs.is_empty() && constants.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n/// {}\npub mod {stem} {{", glsl::summary(source).join("\n/// "));
        for constant in &constants {
            let _ =
                writeln!(out, "    /// `{}` in GLSL.\n    pub const {}: u32 = {};", constant.0, constant.0, constant.1);
        }
        for (name, members) in structs {
            render_struct(&mut out, name, &glsl::block_doc(source, name), members, &glsl::member_docs(source, name))?;
        }
        out.push_str("}\n");
    }
    for kernel in kernels {
        render_kernel(&mut out, kernel, includes)?;
    }
    let _ = writeln!(out, "\n/// Every kernel, by name.\npub static KERNELS: [&KernelDef; {}] = [", kernels.len());
    for kernel in kernels {
        let _ = writeln!(out, "    &{}::KERNEL,", kernel.stem);
    }
    out.push_str("];\n");
    rustfmt(&out)
}

/// Appends the module of one kernel: its constants, its push constants and its specialisation constants.
#[cfg(feature = "shaderc")]
fn render_kernel(out: &mut String, kernel: &Kernel, includes: &[(String, String)]) -> Result<()> {
    let stem = &kernel.stem;
    let _ = writeln!(
        out,
        "\n/// {}\npub mod {stem} {{\n    use super::KernelDef;\n",
        glsl::summary(&kernel.source).join("\n    /// ")
    );
    for (name, value) in glsl::constants(&kernel.source) {
        let _ = writeln!(out, "    /// `{name}` in GLSL.\n    pub const {name}: u32 = {value};");
    }
    // Forms of one op have their push constants in an include.
    let included = |stem: &str| kernel.source.contains(&format!("\"include/{stem}.glsl\""));
    let texts = includes.iter().filter(|(stem, _)| included(stem)).map(|(_, text)| text);
    let mut docs = std::iter::once(&kernel.source).chain(texts).map(|text| glsl::member_docs(text, "Push"));
    let docs = docs.find(|docs| !docs.is_empty()).unwrap_or_default();
    render_struct(out, "Push", "Push constants.", &kernel.interface.push, &docs)?;
    let constants = &kernel.interface.constants;
    out.push_str(
        "/// Specialisation constants.\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\npub struct Constants {\n",
    );
    for (id, name) in constants {
        let _ = writeln!(out, "/// Constant {id}, `{name}`.\npub {}: u32,", name.to_lowercase());
    }
    let _ = writeln!(
        out,
        "}}\nimpl Constants {{\n/// Ids and values.\n#[must_use]\npub fn values(self) -> [(u32, u32); {}] {{\n[",
        constants.len()
    );
    for (id, name) in constants {
        let _ = writeln!(out, "({id}, self.{}),", name.to_lowercase());
    }
    let _ = writeln!(
        out,
        "]\n}}\n}}\n/// The kernel.\npub static KERNEL: KernelDef = KernelDef {{ name: \"{stem}\", spirv: include_bytes!(\"../spv/{stem}.spv\"), \
         push_bytes: size_of::<Push>() as u32 }};"
    );
    if let Some(Second { suffix, doc, .. }) = Second::of(stem, &kernel.source) {
        let (name, title) = (suffix.to_uppercase(), suffix.replace('_', " "));
        let _ = writeln!(
            out,
            "/// {doc}\npub static {name}: KernelDef = KernelDef {{ name: \"{stem} {title}\", spirv: \
             include_bytes!(\"../spv/{stem}.{suffix}.spv\"), push_bytes: size_of::<Push>() as u32 }};"
        );
    }
    out.push_str("}\n");
    Ok(())
}

/// Appends a struct that mirrors a block of GLSL, with assertions that its members lie where the shader reads them.
#[cfg(feature = "shaderc")]
fn render_struct(
    out: &mut String,
    name: &str,
    doc: &str,
    members: &[Member],
    docs: &BTreeMap<String, String>,
) -> Result<()> {
    let _ = writeln!(
        out,
        "    /// {doc}\n    #[repr(C)]\n    #[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]\n    pub struct {name} {{"
    );
    let mut end = 0;
    for member in members {
        if member.offset != end {
            return Err(format!(
                "{name}.{} lies at {} but the members before it end at {end}: order them so that nothing is padded",
                member.name, member.offset
            ));
        }
        end += member.bytes();
        let doc = docs.get(&member.name).map_or_else(|| format!("`{}` in GLSL.", member.name), Clone::clone);
        let _ = writeln!(out, "        /// {doc}\n        pub {}: {},", member.name, member.rust());
    }
    let align = members.iter().map(|m| m.scalar.bytes()).max().unwrap_or(4);
    if end % align != 0 {
        let _ = writeln!(
            out,
            "        /// Fills the struct to its alignment.\n        pub padding: [u32; {}],",
            (align - end % align) / 4
        );
    }
    out.push_str("    }\n    const _: () = {\n");
    let _ = writeln!(out, "        assert!(size_of::<{name}>() == {});", end.next_multiple_of(align));
    for member in members {
        let _ = writeln!(out, "        assert!(std::mem::offset_of!({name}, {}) == {});", member.name, member.offset);
    }
    out.push_str("    };\n");
    Ok(())
}

/// Formats Rust source with rustfmt.
#[cfg(feature = "shaderc")]
fn rustfmt(source: &str) -> Result<String> {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--emit", "stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("rustfmt: {e}"))?;
    child.stdin.take().ok_or("rustfmt has no input")?.write_all(source.as_bytes()).map_err(|e| e.to_string())?;
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err("rustfmt refused the generated code".to_owned());
    }
    String::from_utf8(output.stdout).map_err(|e| e.to_string())
}
