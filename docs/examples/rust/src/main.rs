//! Runs a network on raw numbers: infer MODEL.onnx INPUT.f32 OUTPUT.f32. INPUT.f32 has the float32 values of one image
//! or more, one after the other, and OUTPUT.f32 gets their outputs. Runs on the GPU where there is one, else on the CPU.
mod mobicuda;

use mobicuda::{Backend, Engine, Session};
use std::path::Path;

fn load(path: &Path, max_batch: i64) -> Result<Engine, mobicuda::Error> {
    Engine::load(path, Backend::Custom, max_batch).or_else(|error| match error.status {
        mobicuda::DEVICE_UNAVAILABLE => Engine::load(path, Backend::Cpu, max_batch),
        _ => Err(error),
    })
}

fn infer(model: &str, input: &str, output: &str) -> Result<(), Box<dyn std::error::Error>> {
    let values: Vec<f32> = std::fs::read(input)
        .map_err(|error| format!("{input}: {error}"))?
        .chunks_exact(4)
        .map(|bytes| f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        .collect();
    let images = values.len() / load(Path::new(model), 1)?.input;
    let mut session = Session::new(&load(Path::new(model), images as i64)?)?;
    let outputs = session.run(&values)?;
    let bytes: Vec<u8> = outputs.iter().flat_map(|value| value.to_ne_bytes()).collect();
    std::fs::write(output, bytes).map_err(|error| format!("{output}: {error}"))?;
    println!("mobicuda {}: {images} images", mobicuda::version());
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, input, output] = &arguments[..] else {
        eprintln!("usage: infer MODEL.onnx INPUT.f32 OUTPUT.f32");
        std::process::exit(2);
    };
    if let Err(error) = infer(model, input, output) {
        eprintln!("infer: {error}");
        std::process::exit(1);
    }
}
