"""What moto lacks or does differently from AWS, a room or a module per service; each module that is named in
server.py has `install(cloud)`, and changes moto through `cloud.patch` alone.
"""
