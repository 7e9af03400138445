// Asks pkg-config where libmobicuda is.
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let answer = Command::new("pkg-config")
        .args(["--variable=libdir", "mobicuda"])
        .output()
        .expect("pkg-config cannot be run");
    assert!(
        answer.status.success(),
        "pkg-config does not know mobicuda: set PKG_CONFIG_PATH\n{}",
        String::from_utf8_lossy(&answer.stderr)
    );
    let folder = String::from_utf8(answer.stdout).expect("pkg-config's answer is no text");
    println!("cargo:rustc-link-search=native={}", folder.trim());
    println!("cargo:rustc-link-lib=dylib=mobicuda");
}
