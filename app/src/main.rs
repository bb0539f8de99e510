//! The program: everything is in the library.

/// Planning makes and frees many small lists, a fifth of its time with the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    packscope::cli::main()
}
