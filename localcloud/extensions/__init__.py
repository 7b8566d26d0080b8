"""What moto lacks or does differently from AWS, one module per service; each has `install(cloud)`."""
