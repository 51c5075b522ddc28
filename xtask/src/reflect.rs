//! Reads a kernel's interface out of its SPIR-V: the push-constant block, the specialisation constants and the named buffer structs.
//!
//! Only the types that zinc's kernels use are understood: scalars of 32 and 64 bits, and arrays of them. Any other type is an error, so
//! that no Rust is generated for an interface that it cannot mirror.

use std::collections::BTreeMap;

use rspirv::binary::parse_words;
use rspirv::dr::{Instruction, Loader, Module, Operand};
use rspirv::spirv::{Decoration, Op, StorageClass, Word};

/// The type of a scalar that host and device share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    U32,
    I32,
    F32,
    U64,
}

impl Scalar {
    pub(crate) fn rust(self) -> &'static str {
        match self {
            Scalar::U32 => "u32",
            Scalar::I32 => "i32",
            Scalar::F32 => "f32",
            Scalar::U64 => "u64",
        }
    }

    pub(crate) fn bytes(self) -> u32 {
        if self == Scalar::U64 { 8 } else { 4 }
    }
}

/// One member of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) scalar: Scalar,
    /// How many elements the member has if it is an array.
    pub(crate) elements: Option<u32>,
    /// Bytes from the start of the block.
    pub(crate) offset: u32,
}

impl Member {
    /// The member's type in Rust.
    pub(crate) fn rust(&self) -> String {
        let scalar = self.scalar.rust();
        self.elements.map_or_else(|| scalar.to_owned(), |elements| format!("[{scalar}; {elements}]"))
    }

    pub(crate) fn bytes(&self) -> u32 {
        self.scalar.bytes() * self.elements.unwrap_or(1)
    }
}

/// The interface of a kernel.
#[derive(Debug)]
pub(crate) struct Interface {
    /// Members of the push-constant block, by offset.
    pub(crate) push: Vec<Member>,
    /// Names of the specialisation constants by id. Id 0 is the workgroup size, which has no name in GLSL.
    pub(crate) constants: BTreeMap<u32, String>,
    /// Buffer structs of more than one member, by name.
    pub(crate) structs: BTreeMap<String, Vec<Member>>,
}

/// Reads the interface from the words of an unoptimised module, which still carries names.
pub(crate) fn reflect(words: &[u32]) -> Result<Interface, String> {
    let mut loader = Loader::new();
    parse_words(words, &mut loader).map_err(|e| format!("cannot parse the SPIR-V: {e}"))?;
    let module = loader.module();
    let names = Names::of(&module);

    let mut push = None;
    for variable in module.types_global_values.iter().filter(|i| i.class.opcode == Op::Variable) {
        if variable.operands.first() == Some(&Operand::StorageClass(StorageClass::PushConstant)) {
            let pointer = definition(&module, variable.result_type.ok_or("a variable without a type")?)?;
            push = Some(block(&module, &names, id_operand(pointer, 1)?)?);
        }
    }

    let mut constants = BTreeMap::new();
    for (target, id) in decorated(&module, Decoration::SpecId) {
        let name = if id == 0 { "WORKGROUP" } else { names.ids.get(&target).map_or("", String::as_str) };
        if name.is_empty() {
            return Err(format!("specialisation constant {id} has no name"));
        }
        constants.insert(id, name.to_owned());
    }

    let mut structs = BTreeMap::new();
    for ty in module.types_global_values.iter().filter(|i| i.class.opcode == Op::TypeStruct) {
        let id = ty.result_id.ok_or("a type without an id")?;
        let is_block = module.annotations.iter().any(|a| {
            a.operands.first() == Some(&Operand::IdRef(id))
                && a.operands.get(1) == Some(&Operand::Decoration(Decoration::Block))
        });
        let name = names.ids.get(&id).cloned().unwrap_or_default();
        if is_block && name != "Push" && ty.operands.len() > 1 {
            structs.insert(name, block(&module, &names, id)?);
        }
    }
    Ok(Interface { push: push.ok_or("no push-constant block")?, constants, structs })
}

/// The names that a module gives to its ids and to the members of its structs, by `OpName` and `OpMemberName`.
struct Names {
    ids: BTreeMap<Word, String>,
    members: BTreeMap<(Word, u32), String>,
}

impl Names {
    fn of(module: &Module) -> Names {
        let mut names = Names { ids: BTreeMap::new(), members: BTreeMap::new() };
        for i in &module.debug_names {
            match i.operands.as_slice() {
                [Operand::IdRef(id), Operand::LiteralString(name)] => {
                    names.ids.insert(*id, name.clone());
                }
                [Operand::IdRef(id), Operand::LiteralBit32(member), Operand::LiteralString(name)] => {
                    names.members.insert((*id, *member), name.clone());
                }
                _ => {}
            }
        }
        names
    }
}

/// The ids that carry a decoration with one literal, each with that literal.
fn decorated(module: &Module, decoration: Decoration) -> Vec<(Word, u32)> {
    module
        .annotations
        .iter()
        .filter_map(|i| match i.operands.as_slice() {
            [Operand::IdRef(id), Operand::Decoration(d), Operand::LiteralBit32(value)] if *d == decoration => {
                Some((*id, *value))
            }
            _ => None,
        })
        .collect()
}

/// The instruction that defines an id.
fn definition(module: &Module, id: Word) -> Result<&Instruction, String> {
    module.types_global_values.iter().find(|i| i.result_id == Some(id)).ok_or_else(|| format!("id {id} is not defined"))
}

/// The operand number `index` of an instruction, which must be an id.
fn id_operand(instruction: &Instruction, index: usize) -> Result<Word, String> {
    match instruction.operands.get(index) {
        Some(Operand::IdRef(id)) => Ok(*id),
        other => Err(format!("expected an id, found {other:?}")),
    }
}

/// The members of the struct `id`, by offset.
fn block(module: &Module, names: &Names, id: Word) -> Result<Vec<Member>, String> {
    let ty = definition(module, id)?;
    let mut members = Vec::new();
    for index in 0..ty.operands.len() {
        let number = u32::try_from(index).map_err(|e| e.to_string())?;
        let name = names
            .members
            .get(&(id, number))
            .cloned()
            .ok_or_else(|| format!("member {index} of struct {id} has no name"))?;
        let offset = module
            .annotations
            .iter()
            .find_map(|i| match i.operands.as_slice() {
                [
                    Operand::IdRef(s),
                    Operand::LiteralBit32(m),
                    Operand::Decoration(Decoration::Offset),
                    Operand::LiteralBit32(offset),
                ] if *s == id && *m == number => Some(*offset),
                _ => None,
            })
            .ok_or_else(|| format!("member {name} has no offset"))?;
        let (scalar, elements) = element(module, id_operand(ty, index)?).map_err(|e| format!("member {name}: {e}"))?;
        members.push(Member { name, scalar, elements, offset });
    }
    members.sort_by_key(|m| m.offset);
    Ok(members)
}

/// The scalar type of a member, and its number of elements if it is an array. The elements of an array must follow each other without
/// gaps.
fn element(module: &Module, id: Word) -> Result<(Scalar, Option<u32>), String> {
    let ty = definition(module, id)?;
    if ty.class.opcode != Op::TypeArray {
        return Ok((scalar(ty)?, None));
    }
    let scalar = scalar(definition(module, id_operand(ty, 0)?)?)?;
    let stride = decorated(module, Decoration::ArrayStride).into_iter().find(|(target, _)| *target == id);
    if stride.is_none_or(|(_, stride)| stride != scalar.bytes()) {
        return Err(format!("an array whose elements of {} bytes are not that far apart", scalar.bytes()));
    }
    match definition(module, id_operand(ty, 1)?)?.operands.as_slice() {
        [Operand::LiteralBit32(elements)] => Ok((scalar, Some(*elements))),
        other => Err(format!("an array of {other:?} elements")),
    }
}

/// The scalar that a type is.
fn scalar(ty: &Instruction) -> Result<Scalar, String> {
    match (ty.class.opcode, ty.operands.as_slice()) {
        (Op::TypeInt, [Operand::LiteralBit32(32), Operand::LiteralBit32(0)]) => Ok(Scalar::U32),
        (Op::TypeInt, [Operand::LiteralBit32(32), Operand::LiteralBit32(1)]) => Ok(Scalar::I32),
        (Op::TypeInt, [Operand::LiteralBit32(64), Operand::LiteralBit32(0)]) => Ok(Scalar::U64),
        (Op::TypeFloat, [Operand::LiteralBit32(32), ..]) => Ok(Scalar::F32),
        (op, operands) => Err(format!("type {op:?} {operands:?} is not a scalar that the host can mirror")),
    }
}
