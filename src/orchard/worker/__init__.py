"""The process that owns one model: it speaks the wire protocol with the gateway and MLX with the device."""
