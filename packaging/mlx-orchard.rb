# typed: strict
# frozen_string_literal: true

# `python -m tools.release_check.formula OWNER/REPOSITORY` fills in the address and the checksum of a release.
class MlxOrchard < Formula
  desc "Local server for MLX models with the APIs of OpenAI and Anthropic"
  homepage "https://github.com/OWNER/orchard"
  url "https://github.com/OWNER/orchard/releases/download/v0.1.0/mlx_orchard-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license all_of: ["Apache-2.0", "MIT"]

  depends_on arch: :arm64
  depends_on macos: :sonoma
  depends_on "python@3.13"
  depends_on "uv"

  def install
    libexec.install Dir["*"]
    (bin/"orchard").write <<~SH
      #!/bin/bash
      exec "#{opt_libexec}/environment/bin/orchard" "$@"
    SH
  end

  # After Homebrew has rewritten the libraries of the keg: those of the wheels have no room for other paths.
  def post_install
    uv = formula_opt_bin("uv")/"uv"
    environment = libexec/"environment"
    system uv, "venv", "--clear", "--python", formula_opt_bin("python@3.13")/"python3.13", environment
    system uv, "pip", "install", "--python", environment/"bin/python",
           "--constraint", libexec/"constraints.txt", "--overrides", libexec/"packaging/overrides.txt",
           "#{libexec}[all]"
  end

  service do
    run [opt_bin/"orchard", "serve"]
    keep_alive true
    log_path var/"log/orchard.log"
    error_log_path var/"log/orchard.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/orchard --version")
  end
end
