"""The `docker` sandbox: a container without network, bind mounts or host environment, entered as three users."""
