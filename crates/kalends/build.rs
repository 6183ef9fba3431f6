//! Links `src/allocator.c`, which sets parameters of the allocator of the C library before `main`.

fn main() {
    println!("cargo:rerun-if-changed=src/allocator.c");
    // Nothing refers to its function: without `+whole-archive` the linker would leave it out.
    cc::Build::new()
        .file("src/allocator.c")
        .link_lib_modifier("+whole-archive")
        .compile("kalends-allocator");
}
